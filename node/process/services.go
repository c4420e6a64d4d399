package process

import (
	"slices"

	"shardway/ack"
	"shardway/config"
	"shardway/proxy"
	"shardway/proxy/shardkey"
	"shardway/proxy/upstream"
)

// appAddress is a configured app instance.
type appAddress struct {
	conf    *config.Config // settings that apply to the app
	service string         // name of its service; empty if the configuration has no services
	url     string         // address; empty means that the instance is not configured
}

// defaultService is the service of a configuration without services.
const defaultService = "default"

// appsOf returns the configured app instances.
func appsOf(conf *config.Config) (apps []appAddress) {
	for i := range conf.Services {
		service := &conf.Services[i]
		for _, url := range service.Settings.Upstreams() {
			apps = append(apps, appAddress{conf: &service.Settings, service: service.Name, url: url})
		}
	}
	if conf.HasServices() {
		return apps
	}
	for _, url := range conf.Upstreams() {
		apps = append(apps, appAddress{conf: conf, url: url})
	}
	return apps
}

// storedText returns the text by which the data directory finds the number of the instance again. An app
// that moves to another service gets another number, because the shard map may still assign shards of its
// previous service to the old number. The service default keeps the numbers of a configuration without
// services.
func (a appAddress) storedText() string {
	if a.service == "" || a.service == defaultService {
		return a.url
	}
	return a.service + " " + a.url
}

// serviceInstances returns the app instances of each service. nil means that the configuration has no
// services.
func serviceInstances(conf *config.Config, apps []appAddress) map[string]upstream.InstanceBits {
	if !conf.HasServices() {
		return nil
	}
	instances := map[string]upstream.InstanceBits{}
	for i := range conf.Services {
		instances[conf.Services[i].Name] = 0
	}
	for i, app := range apps {
		if app.url != "" {
			instances[app.service] = instances[app.service].With(uint8(i))
		}
	}
	return instances
}

// hookPaths returns the paths of the hooks that clients must not reach, each once.
func hookPaths(conf *config.Config) (paths []string) {
	add := func(conf *config.Config) {
		hooks := conf.HooksAddress()
		if !hooks.HasSeparateAddress() && hooks.Path != "" && !slices.Contains(paths, hooks.Path) {
			paths = append(paths, hooks.Path)
		}
	}
	add(conf)
	for i := range conf.Services {
		add(&conf.Services[i].Settings)
	}
	return paths
}

// proxyKeys returns the key configuration of the settings.
func proxyKeys(conf *config.Config) (*shardkey.Keys, error) {
	if conf.HasServices() {
		return shardkey.NewForServices(conf.KeyConfig().Services, int(conf.BodyBuffer))
	}
	keyConfig := conf.KeyConfig()
	return shardkey.New(shardkey.Spec{Sources: keyConfig.Sources, Routes: keyConfig.Routes, OnMissingKey: string(keyConfig.Missing), BodyLimit: int(keyConfig.BodyBuffer), Cookie: keyConfig.Cookie})
}

// proxyServices returns the settings of each service for the proxy. nil means that the configuration has no
// services.
func proxyServices(conf *config.Config) (map[string]proxy.Settings, error) {
	if !conf.HasServices() {
		return nil, nil //nolint:nilnil // see above
	}
	services := make(map[string]proxy.Settings, len(conf.Services))
	for i := range conf.Services {
		settings, err := proxySettings(&conf.Services[i].Settings)
		if err != nil {
			return nil, err
		}
		services[conf.Services[i].Name] = settings
	}
	return services, nil
}

// serviceSpecs returns the services of a cluster that the node creates.
func serviceSpecs(conf *config.Config) (specs []ack.ServiceSpec) {
	for i := range conf.Services {
		specs = append(specs, ack.ServiceSpec{Name: conf.Services[i].Name, Shards: conf.Services[i].Settings.Shards})
	}
	return specs
}
