package config

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"shardway/keysource"
)

// maxClusterSetting is the maximum length of a value in ClusterSettings, in bytes.
const maxClusterSetting = 160

// KeyConfig returns the settings that decide which key a request has.
func (c *Config) KeyConfig() keysource.Config {
	if c.HasServices() {
		return keysource.Config{Services: c.keyServices(), TrustedProxies: c.TrustedProxies, BodyBuffer: c.BodyBuffer}
	}
	return keysource.Config{Spec: keysource.Spec{Sources: c.Keys, Routes: c.KeyRoutes()}, Missing: c.OnMissingKey, TrustedProxies: c.TrustedProxies, BodyBuffer: c.BodyBuffer, Cookie: c.cookieScope()}
}

// clusterWideNames returns the names of the settings that must have one value in the whole
// cluster, besides those that decide the key and those that the cluster keeps itself.
func (c *Config) clusterWideNames() []string {
	names := []string{
		"websockets", "body-buffer", "drain-timeout", "stream-grace", "queue-wait", "heartbeat", "raft-timeout", "restart-grace",
		"max-voters", "spread-zones", "remove-dead-after", "join-approval", "join-timeout", "finalize-after", "max-header-bytes", "max-headers", "max-uri", "max-body",
	}
	if c.HasHooks() && !c.Gateway() {
		names = append(names, "release-timeout")
	}
	return names
}

// ClusterSettings returns the settings that must be the same on all nodes, by name. Values
// are in canonical form, so equal texts mean equal settings. A long value ends in its hash, except
// for keysource.ShardsSetting, which the leader reads.
// Nodes exchange these texts, so none of them is secret.
func (c *Config) ClusterSettings() map[string]string {
	all := make(map[string]string)
	for _, name := range c.clusterWideNames() {
		if s, ok := findSetting(settings(), name); ok {
			all[name] = s.valueOf(c).String()
		}
	}
	all["key"] = strings.Join(keysource.CanonicalSources(c.Keys), ",")
	all["on-missing-key"] = string(c.OnMissingKey)
	if c.OnMissingKey == keysource.MissingCookie {
		all["cookie"] = c.canonicalCookie()
	}
	keyConfig := c.KeyConfig()
	if keyConfig.UsesProxies() {
		all["trusted-proxies"] = networkListValue{&c.TrustedProxies}.String()
	}
	var routes []string
	for _, route := range c.KeyRoutes() {
		routes = append(routes, route.Prefix+": "+strings.Join(keysource.CanonicalSources(route.Sources), ","))
	}
	all[routesKey] = strings.Join(routes, "; ")
	if !c.Gateway() || c.Hooks != "" {
		all["hooks"] = c.hooksForComparison()
	}
	all["replicas"] = c.replicasForComparison()
	if c.HasServices() {
		all[servicesKey], _ = keyConfig.Canonical() // Validate reports an error
	}
	for name, text := range all {
		all[name] = truncateText(text)
	}
	if c.HasServices() {
		all[keysource.ShardsSetting] = keysource.FormatShards(keyConfig.Services)
	}
	return all
}

// StandbyCounts returns the number of standbys of each shard by service. A configuration without services has
// the service default.
func (c *Config) StandbyCounts() map[string]int {
	if !c.HasServices() {
		return map[string]int{"default": c.Replicas}
	}
	counts := make(map[string]int, len(c.Services))
	for i := range c.Services {
		counts[c.Services[i].Name] = c.Services[i].Settings.Replicas
	}
	return counts
}

// replicasForComparison returns the setting replicas, with that of each service if there are services.
func (c *Config) replicasForComparison() string {
	if !c.HasServices() {
		return strconv.Itoa(c.Replicas)
	}
	var counts []string
	for i := range c.Services {
		counts = append(counts, c.Services[i].Name+"="+strconv.Itoa(c.Services[i].Settings.Replicas))
	}
	return strings.Join(counts, ",")
}

// RunningSettings returns the ClusterSettings of a node that was started with the settings started and
// has reloaded c. Settings that require a restart have their old values.
func (c *Config) RunningSettings(started *Config) map[string]string {
	all, before := c.ClusterSettings(), started.ClusterSettings()
	for _, row := range settings() {
		if row.reloadable {
			continue
		}
		if value, ok := before[row.name]; ok {
			all[row.name] = value
		} else {
			delete(all, row.name)
		}
	}
	return all
}

// hooksForComparison returns the setting hooks without addresses that differ between machines.
func (c *Config) hooksForComparison() string {
	switch hooks := c.HooksAddress(); {
	case !c.HasHooks():
		return ""
	case c.EmbeddedHooks || hooks.HasSeparateAddress():
		return "at an address of their own"
	default:
		return hooks.Path
	}
}

// truncateText returns text. It replaces the end of a long text with the hash of the whole text.
func truncateText(text string) string {
	if len(text) <= maxClusterSetting {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return strings.ToValidUTF8(text[:maxClusterSetting-24], "") + "… sha256:" + hex.EncodeToString(sum[:6])
}
