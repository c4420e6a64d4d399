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
func appHooks(conf *config.Config, dial func(context.Context) (net.Conn, error), disk string) node.Hooks {
	if conf.Hooks == "" {
		return nil
	}
	hookAddr := conf.HooksAddress()
	client := &hooks.HTTP{Dial: dial, Path: hookAddr.Path, Disk: disk, Host: conf.UpstreamAddress()}
	if upstream := hookAddr.Upstream; hookAddr.HasSeparateAddress() {
		client.Dial = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, upstream.Network, upstream.Address)
		}
		if client.Host = upstream.Address; upstream.Network == "unix" {
			client.Host = ""
		}
	}
	client.Host = cmp.Or(client.Host, "localhost") // Host header for Unix sockets, as for requests
	return client
}
