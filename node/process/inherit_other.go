//go:build !linux

package process

import "net"

// inheritKeepAlive leaves it to package net to set the options of each connection.
func inheritKeepAlive(*net.ListenConfig) {}
