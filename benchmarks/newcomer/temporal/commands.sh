pip install temporalio==1.35.0
temporal server start-dev &
python worker.py &
python call.py
