"""What a plan cuts out of a checkpoint, by its name."""

from sigmascope.scanning.planning import Settings, worked_out


def matrices(source, **asked):
    """Each matrix as it would be measured."""
    work = worked_out(source, Settings(**asked))
    return {task.matrix.site: task.cut.read() for task in work.tasks}


def kinds(source, **asked):
    return {m.site: m.kind for m in worked_out(source, Settings(**asked)).plan.matrices}


def words(source, **asked):
    """What has to be said of matrices that are measured whole."""
    work = worked_out(source, Settings(**asked))
    return {task.matrix.site: task.note for task in work.tasks if task.note}
