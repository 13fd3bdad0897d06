"""The update of policy and critic inside verl's workers."""
