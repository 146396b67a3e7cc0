"""Operations about the server itself: health, audit log, retention."""
