pip install fastmcp==4.1.2
python call.py
