package process

import (
	"cmp"
	"context"
	"net"
	"syscall"

	"shardway/config"
	"shardway/node"
	"shardway/node/hooks"
	"shardway/proxy/upstream"
	"shardway/shardmap"
)

// instance contains the functions that connect the node to one app instance. The zero value is an
// instance that is not configured.
type instance struct {
	dial  func(ctx context.Context) (net.Conn, error)
	watch node.AppInstance
}

// newInstance returns the functions for the app instance at an address.
func newInstance(conf *config.Config, url string) (instance, error) {
	if url == "" {
		return instance{}, nil
	}
	dial, err := upstream.URLDialer(url)
	if err != nil {
		return instance{}, err
	}
	reported := &appInstance{}
	return instance{dial: dial, watch: node.AppInstance{
		Check:    appChecker(dial, config.UpstreamAddressOf(url), conf.HealthCheck(), reported),
		Reported: reported.get,
	}}, nil
}

// setFirst makes the instance the first one of the node.
func (i instance) setFirst(options *node.Options) {
	options.Proxy.DialUpstream = i.dial
	options.CheckApp, options.AppInstance = i.watch.Check, i.watch.Reported
}

// numberInstances gives each configured address the number of its app instance, which the data
// directory contains, and adds the instances to the options. It returns the addresses by instance.
func numberInstances(options *node.Options, conf *config.Config) (numbered []string, err error) {
	numbered, replaced, err := options.Dir.NumberUpstreams(conf.Upstreams(), shardmap.MaxInstances)
	if err != nil {
		return nil, err
	}
	if replaced != "" {
		options.Log.Warn().Str("upstream", numbered[0]).Str("previous", replaced).
			Str("remedy", "make sure that the app process at the previous address has ended: its writes have the same ownership epoch").Msg("only upstream address has changed")
	}
	for i, upstream := range numbered {
		next, err := newInstance(conf, upstream)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			next.setFirst(options)
			continue
		}
		options.Proxy.FurtherUpstreams = append(options.Proxy.FurtherUpstreams, next.dial)
		options.FurtherInstances = append(options.FurtherInstances, next.watch)
	}
	return numbered, nil
}

// appHooks returns the client for the hooks of an app in other processes, or nil if no hooks are
// configured. upstreams are the addresses by instance. options contain the connections to the app
// instances, and the data directory. With several instances, appHooks also sets options.AliveHooks.
func appHooks(conf *config.Config, upstreams []string, options *node.Options) node.Hooks {
	if conf.Hooks == "" {
		return nil
	}
	disk := options.Dir.Disk()
	if len(upstreams) <= 1 {
		return instanceHooks(conf, conf.Upstream, options.Proxy.DialUpstream, disk)
	}
	all := &hooks.Instances{}
	for i, upstream := range upstreams {
		dial := options.Proxy.DialUpstream
		if i > 0 {
			dial = options.Proxy.FurtherUpstreams[i-1]
		}
		client := instanceHooks(conf, upstream, dial, disk)
		if upstream == "" {
			client.Dial = dialAbsentInstance // also if hooks has its own address: another app listens there
		}
		all.Calls = append(all.Calls, client)
		options.AliveHooks = append(options.AliveHooks, client)
	}
	return all
}

// instanceHooks returns the client for the hooks of one app instance, or nil if no hooks are
// configured. upstream is the address of the instance, and dial connects to it; an empty address and
// nil mean that the instance is not configured. disk is the disk ID of the node.
func instanceHooks(conf *config.Config, upstream string, dial func(context.Context) (net.Conn, error), disk string) *hooks.HTTP {
	if conf.Hooks == "" {
		return nil
	}
	hookAddr := conf.HooksAddress()
	client := &hooks.HTTP{Dial: dial, Path: hookAddr.Path, Disk: disk, Host: config.UpstreamAddressOf(upstream)}
	if separate := hookAddr.Upstream; hookAddr.HasSeparateAddress() {
		client.Dial = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, separate.Network, separate.Address)
		}
		if client.Host = separate.Address; separate.Network == "unix" {
			client.Host = ""
		}
	}
	client.Host = cmp.Or(client.Host, "localhost") // Host header for Unix sockets, as for requests
	return client
}

// dialAbsentInstance refuses the connection to an app instance that is no longer configured, so its
// shards move unreleased, as after a crash of the app. That does not prove that the process has
// exited: a process that still runs may write with its old epoch.
func dialAbsentInstance(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
