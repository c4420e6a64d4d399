package process

import (
	"cmp"
	"context"
	"net"

	"shardway/config"
	"shardway/node"
	"shardway/node/hooks"
)

// appHooks returns the client for the hooks of an app in another process, or nil if no hooks are
// configured. dial connects to the app, and disk is the disk ID of the node.
func appHooks(c *config.Config, dial func(context.Context) (net.Conn, error), disk string) node.Hooks {
	if c.Hooks == "" {
		return nil
	}
	at := c.HooksAddress()
	h := &hooks.HTTP{Dial: dial, Path: at.Path, Disk: disk, Host: c.UpstreamAddress()}
	if u := at.Upstream; at.HasSeparateAddress() {
		h.Dial = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, u.Network, u.Address)
		}
		if h.Host = u.Address; u.Network == "unix" {
			h.Host = ""
		}
	}
	h.Host = cmp.Or(h.Host, "localhost") // Host header for Unix sockets, as for requests
	return h
}
