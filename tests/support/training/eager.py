"""Training that gives way to nobody: imported where the processes of an app that tests started train.

What trains gives way to the page. Beside tests, which do not give way, it would hardly get on where cores are few.
"""

from viz.work.processes import training_process, trial_process

training_process.NICE = trial_process.NICE = 0
