package process

import (
	"cmp"
	"context"
	"net"
	"slices"
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

// numberInstances gives each configured app the number of its instance, which the data directory contains, and adds
// the instances to the options. It returns the apps by instance. A zero element is an instance that is not configured.
func numberInstances(options *node.Options, conf *config.Config) (numbered []appAddress, err error) {
	configured := appsOf(conf)
	texts := make([]string, len(configured))
	for i, app := range configured {
		texts[i] = app.storedText()
	}
	texts, replaced, err := options.Dir.NumberUpstreams(texts, shardmap.MaxInstances)
	if err != nil {
		return nil, err
	}
	if replaced != "" {
		options.Log.Warn().Str("upstream", texts[0]).Str("previous", replaced).
			Str("remedy", "make sure that the app process at the previous address has ended: its writes have the same ownership epoch").Msg("only upstream address has changed")
	}
	for _, text := range texts {
		i := slices.IndexFunc(configured, func(app appAddress) bool { return app.storedText() == text })
		if i < 0 {
			numbered = append(numbered, appAddress{conf: conf})
			continue
		}
		numbered = append(numbered, configured[i])
	}
	options.Proxy.ServiceInstances = serviceInstances(conf, numbered)
	for i, app := range numbered {
		next, err := newInstance(app.conf, app.url)
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
// configured. apps are the apps by instance. options contain the connections to the app instances, and
// the data directory. With several instances, appHooks also sets options.AliveHooks.
func appHooks(conf *config.Config, apps []appAddress, options *node.Options) node.Hooks {
	hasHooks := conf.Hooks != "" && !conf.HasServices() || conf.HasServices() && conf.HasHooks()
	if !hasHooks {
		return nil
	}
	disk := options.Dir.Disk()
	if len(apps) == 0 { // a gateway
		return instanceHooks(appAddress{conf: conf}, options.Proxy.DialUpstream, disk)
	}
	if len(apps) == 1 {
		return instanceHooks(apps[0], options.Proxy.DialUpstream, disk)
	}
	all := &hooks.Instances{}
	for i, app := range apps {
		dial := options.Proxy.DialUpstream
		if i > 0 {
			dial = options.Proxy.FurtherUpstreams[i-1]
		}
		client := instanceHooks(app, dial, disk)
		if client == nil { // an instance that is not configured, of services whose hooks differ
			client = &hooks.HTTP{Disk: disk, Host: "localhost"}
		}
		if app.url == "" {
			client.Dial = dialAbsentInstance // also if hooks has its own address: another app listens there
		}
		all.Calls = append(all.Calls, client)
		options.AliveHooks = append(options.AliveHooks, client)
	}
	return all
}

// instanceHooks returns the client for the hooks of one app instance, or nil if no hooks are
// configured. dial connects to the instance; an empty address and nil mean that the instance is not
// configured. disk is the disk ID of the node.
func instanceHooks(app appAddress, dial func(context.Context) (net.Conn, error), disk string) *hooks.HTTP {
	if app.conf.Hooks == "" {
		return nil
	}
	hookAddr := app.conf.HooksAddress()
	client := &hooks.HTTP{Dial: dial, Path: hookAddr.Path, Disk: disk, Service: app.service, Host: config.UpstreamAddressOf(app.url)}
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
