package shardkey

import (
	"errors"
	"net/netip"

	"shardway/keysource"
)

// Spec says where the keys of requests are found, in the words of the
// configuration.
type Spec struct {
	// Sources are tried in order, as package keysource reads them. Empty means
	// header:X-Shard-Key.
	Sources []string
	// Routes give requests below a path prefix sources of their own. The longest
	// prefix counts.
	Routes []Route
	// OnMissingKey says what a request without a key gets: reject (the default),
	// local, hash-path or cookie.
	OnMissingKey string
}

// Route is one line of KeySpec.Routes.
type Route = keysource.Route

// Keys finds the key of a request. It never changes once made.
type Keys struct {
	table   *keysource.Table
	missing keysource.Missing
	// usesProxies: keys depend on forwarding headers, which count from proxies alone;
	// false: they do not, or the settings say whose count.
	usesProxies bool
	proxies     []netip.Prefix
}

// Parse reads a canonical key configuration, as keysource.Config.Canonical wrote it.
func Parse(text string) (*Keys, error) {
	c, err := keysource.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	k, err := New(Spec{Sources: c.Sources, Routes: c.Routes, OnMissingKey: string(c.Missing)})
	if err != nil {
		return nil, err
	}
	k.usesProxies, k.proxies = c.UsesProxies(), c.TrustedProxies
	return k, nil
}

// New reads a KeySpec. The error names every mistake in it.
func New(spec Spec) (*Keys, error) {
	table, err := keysource.NewTable(keysource.Spec{Sources: spec.Sources, Routes: spec.Routes})
	missing, bad := keysource.ParseMissing(spec.OnMissingKey)
	if bad != nil || err != nil {
		return nil, errors.Join(err, bad)
	}
	return &Keys{table: table, missing: missing}, nil
}
