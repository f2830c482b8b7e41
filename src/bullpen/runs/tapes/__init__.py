"""Recording a run on a tape, and replaying it without a model."""
