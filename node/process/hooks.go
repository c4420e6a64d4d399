package process

import (
	"cmp"
	"context"
	"net"

	"shardway/config"
	"shardway/node"
	"shardway/node/hooks"
)

// appHooks returns what calls the hooks of an app in another process, nil if it has
// none. dial reaches the app itself; disk names the node's.
func appHooks(c *config.Config, dial func(context.Context) (net.Conn, error), disk string) node.Hooks {
	if c.Hooks == "" {
		return nil
	}
	at := c.HooksAt()
	h := &hooks.HTTP{Dial: dial, Path: at.Path, Disk: disk, Host: c.UpstreamAddress()}
	if u := at.Upstream; at.Own() {
		h.Dial = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, u.Network, u.Address)
		}
		if h.Host = u.Address; u.Network == "unix" {
			h.Host = ""
		}
	}
	h.Host = cmp.Or(h.Host, "localhost") // as with requests, what is on a Unix socket is told so
	return h
}
