"""A search as a HyperparameterTuningJob of Vertex AI, each of whose trials is a custom job."""

from qcnn.jobs.naming import LABEL_LENGTH, digest
from qcnn.jobs.vertex.client.library import aiplatform
from qcnn.jobs.vertex.custom_job import SPEC_LABEL
from qcnn.jobs.vertex.tuning.study import Study, study_spec


def tuning_job(trial: aiplatform.CustomJob, study: Study) -> aiplatform.HyperparameterTuningJob:
    """Return the tuning job whose trials run what a custom job does, which is given each trial's values as flags.

    It has that job's labels, by which it is found again. A trial writes below the job's folder of outputs, in one that
    is called as the trial is. Trials that fail do not end the search.
    """
    made = aiplatform.HyperparameterTuningJob(
        display_name=trial.display_name,
        labels=dict(trial.labels),
        study_spec=study_spec(study),
        max_trial_count=study.trials,
        parallel_trial_count=min(study.parallel, study.trials),
        max_failed_trial_count=study.trials,
        trial_job_spec=trial.job_spec,
        encryption_spec=trial.encryption_spec if "encryption_spec" in trial else None,
    )
    del made.labels[SPEC_LABEL]
    made.labels[SPEC_LABEL] = digest(aiplatform.HyperparameterTuningJob.to_dict(made))[:LABEL_LENGTH]
    return made
