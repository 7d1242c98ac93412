# Terraform or OpenTofu: an upgrade begins only if all checks allow it, and is complete only when the cluster is healthy
# again.

terraform {
  required_version = ">= 1.4.0"
}

variable "talos_version" {
  type        = string
  description = "Version of Talos to upgrade to, such as v1.14.1"
}

variable "talosconfig" {
  type        = string
  description = "Path of a talosconfig; the upgrade needs os:admin"
}

variable "kubeconfig" {
  type        = string
  description = "Path of a kubeconfig with the rights that `cluster-health rbac --upgrade` prints"
}

# Read-only. A failure here makes `terraform apply` fail before anything is changed.
resource "terraform_data" "before_upgrade" {
  triggers_replace = [var.talos_version]

  provisioner "local-exec" {
    command = "cluster-health --upgrade-talos \"$TALOS_VERSION\" --require-quorum-margin 1 --wait-timeout 10m"
    environment = {
      TALOSCONFIG   = var.talosconfig
      KUBECONFIG    = var.kubeconfig
      TALOS_VERSION = var.talos_version
    }
  }
}

# Machine by machine, with a gate before and after each.
resource "terraform_data" "upgrade" {
  triggers_replace = [terraform_data.before_upgrade.id]

  provisioner "local-exec" {
    command = "${path.module}/../upgrade/upgrade-gate --image \"factory.talos.dev/metal-installer/{schematic}:$TALOS_VERSION\""
    environment = {
      TALOSCONFIG   = var.talosconfig
      KUBECONFIG    = var.kubeconfig
      TALOS_VERSION = var.talos_version
    }
  }
}
