from sigmascope.diagnosis.presentation.diagnoses import layer_values


def test_values_of_layers_leave_the_output_out(profile):
    values = layer_values(profile, "participation ratio", "samples")
    assert len(values) == len(profile.layers)
    assert layer_values(profile, "participation ratio", "channels") == []
