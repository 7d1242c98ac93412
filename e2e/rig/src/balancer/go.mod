module rig/balancer

go 1.25
