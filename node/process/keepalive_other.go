//go:build !linux

package process

import "net"

// inheritKeepAlive does nothing: package net sets the options of each connection.
func inheritKeepAlive(*net.ListenConfig) {}
