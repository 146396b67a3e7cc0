"""Operations about the server itself: health, the audit log, and the internal calls of retention and of a restore."""
