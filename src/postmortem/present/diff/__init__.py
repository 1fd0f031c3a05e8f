"""What two trainings differ in."""
