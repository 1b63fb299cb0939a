"""Environment variables by which launchers configure a process."""

# Holds the job's name in every process on a cluster; in a command and in addresses $(QCNN_JOB) stands for it.
JOB_VARIABLE = "QCNN_JOB"
# text, where it is not set, or json.
FORMAT_VARIABLE = "QCNN_LOG_FORMAT"
# The port on which a process serves its metrics; none where it is not set, any free one where it is 0.
PORT_VARIABLE = "QCNN_METRICS_PORT"
# Number of GPUs that the job requested for this process; not set where it requested none.
GPUS_VARIABLE = "QCNN_GPUS"
