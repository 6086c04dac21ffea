"""Engines that bring an errand to many hosts: OpenSSH, Ansible, Slurm, MPI, Kubernetes."""
