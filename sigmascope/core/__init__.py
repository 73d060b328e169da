"""What all stands on: refusals, quantities, records and their encoding, run files. No product."""
