"""What users call: one module for each verb. The functions are public as ``scurry.early_exit`` and so on."""
