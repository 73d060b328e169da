"""sigmascope beside the packages that measure something of the same: one table of each question.

pip install 'sigmascope[peers]'
python -m benchmarks.peers                    # everything; minutes on one core
python -m benchmarks.peers convolutions trace # some questions, the others kept as they are
python docs/generate.py                       # docs/peers.md from what was kept

What was measured is kept in `results.json`, with versions and the number of threads.
"""
