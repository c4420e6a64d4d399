package process

import (
	"cmp"
	"context"
	"net"
	"syscall"

	"shardway/config"
	"shardway/node"
	"shardway/node/hooks"
	"shardway/proxy"
	"shardway/shardmap"
)

// instance contains the functions that connect the node to one app instance. The zero value is an
// instance that is not configured.
type instance struct {
	dial  func(ctx context.Context) (net.Conn, error)
	watch node.AppInstance
}

// newInstance returns the functions for the app instance at an address.
func newInstance(conf *config.Config, upstream string) (instance, error) {
	if upstream == "" {
		return instance{}, nil
	}
	dial, err := proxy.DialURL(upstream)
	if err != nil {
		return instance{}, err
	}
	reported := &appInstance{}
	return instance{dial: dial, watch: node.AppInstance{
		Check:    appChecker(dial, config.UpstreamAddressOf(upstream), conf.Health, reported),
		Reported: reported.get,
	}}, nil
}

// setFirst makes the instance the first one of the node.
func (i instance) setFirst(options *node.Options) {
	options.Proxy.DialUpstream = i.dial
	options.CheckApp, options.AppInstance = i.watch.Check, i.watch.Reported
}

// numberInstances gives each configured address the number of its app instance, which the data
// directory contains, and adds the instances to the options.
func numberInstances(options *node.Options, conf *config.Config) error {
	numbered, err := options.Dir.NumberUpstreams(conf.Upstreams(), shardmap.MaxInstances)
	if err != nil {
		return err
	}
	for i, upstream := range numbered {
		next, err := newInstance(conf, upstream)
		if err != nil {
			return err
		}
		if i == 0 {
			next.setFirst(options)
			continue
		}
		options.Proxy.FurtherUpstreams = append(options.Proxy.FurtherUpstreams, next.dial)
		options.FurtherInstances = append(options.FurtherInstances, next.watch)
	}
	return nil
}

// appHooks returns the client for the hooks of an app in other processes, or nil if no hooks are
// configured. options contain the connections to the app instances, and the data directory. With
// several instances, appHooks also sets options.AliveHooks.
func appHooks(conf *config.Config, options *node.Options) node.Hooks {
	disk := options.Dir.Disk()
	first := instanceHooks(conf, options.Proxy.DialUpstream, disk)
	if first == nil {
		return nil
	}
	if len(options.Proxy.FurtherUpstreams) == 0 {
		return first
	}
	all := &hooks.Instances{Calls: []*hooks.HTTP{first}}
	for _, dial := range options.Proxy.FurtherUpstreams {
		all.Calls = append(all.Calls, instanceHooks(conf, dial, disk))
	}
	for _, client := range all.Calls {
		options.AliveHooks = append(options.AliveHooks, client)
	}
	return all
}

// instanceHooks returns the client for the hooks of one app instance, or nil if no hooks are
// configured. dial connects to the instance; nil means that the instance is not configured. disk is
// the disk ID of the node.
func instanceHooks(conf *config.Config, dial func(context.Context) (net.Conn, error), disk string) *hooks.HTTP {
	if conf.Hooks == "" {
		return nil
	}
	hookAddr := conf.HooksAddress()
	client := &hooks.HTTP{Dial: dial, Path: hookAddr.Path, Disk: disk, Host: conf.UpstreamAddress()}
	if dial == nil {
		client.Dial = dialAbsentInstance
	}
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

// dialAbsentInstance refuses the connection to an app instance that is no longer configured: its app
// is gone with its state.
func dialAbsentInstance(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
