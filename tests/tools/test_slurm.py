"""A Slurm of one node, started in a folder of its own, grades a class: class.sbatch is what an instructor would run."""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def missing():
    """Returns why Slurm cannot run here; None where it can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    return f"{', '.join(absent)} not installed (apt-get install slurm-wlm munge)" if absent else \
        "it needs root" if os.geteuid() != 0 else None


def free_port():
    with socket.socket() as listener:
        listener.bind(("", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def cluster(folder):
    """Yields the environment in which sbatch finds a running Slurm whose every file is in `folder`."""
    name, processes = socket.gethostname().split(".")[0], []
    for part in ("state", "spool"):
        (folder / part).mkdir()
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    (folder / "slurm.conf").write_text(f"""
ClusterName=labs
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MaxArraySize=1001
NodeName={name} NodeAddr=127.0.0.1 CPUs={max(os.cpu_count(), 2)} RealMemory=8000 State=UNKNOWN
PartitionName=labs Nodes={name} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
""")
    environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
    daemons = (["munged", "--foreground", "--force", "--key-file", key, "--socket", folder / "munge.socket", "--pid-file",
                folder / "munged.pid", "--log-file", folder / "munged.log", "--seed-file", folder / "munged.seed"],
               ["slurmctld", "-D", "-c", "-L", folder / "slurmctld.log"],
               ["slurmd", "-D", "-c", "-N", name, "-L", folder / "slurmd.log"])
    try:
        for command in daemons:
            processes.append(subprocess.Popen([str(word) for word in command], env=environment, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL, start_new_session=True))
            time.sleep(1)
        for _ in range(60):
            state = subprocess.run(["sinfo", "-h", "-o", "%t"], env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
            if state == "idle":
                break
            time.sleep(0.5)
        else:
            logs = "".join(path.read_text()[-600:] for path in sorted(folder.glob("*.log")))
            raise OSError(f"Slurm does not start ({state}): {logs}")
        yield environment
    finally:
        for process in reversed(processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def grade_class(folder, step, submissions, seed):
    """Returns {name: text of the results} of a class that Slurm graded, and the seconds that it took."""
    (folder / "slurm").mkdir()
    with cluster(folder / "slurm") as environment:
        begin = time.monotonic()
        subprocess.run([str(ROOT / "common/tools/labs/class.sbatch"), step, str(submissions), str(folder / "results"), "autolab"], cwd=ROOT,
                       env={**environment, "LAB_SEED": seed, "SBATCH_WAIT": "1"}, stdout=subprocess.DEVNULL, check=True)
        seconds = time.monotonic() - begin
    return {path.name: path.read_text() for path in (folder / "results").iterdir()}, seconds


def grade_by_hand(step, submission, results, seed):
    subprocess.run([sys.executable, str(ROOT / "common/tools/labs/grade.py"), step, str(submission), str(results), "autolab"],
                   env={**os.environ, "LAB_SEED": seed}, stdout=subprocess.DEVNULL, check=True)
    return results.read_text()
