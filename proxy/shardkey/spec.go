package shardkey

import (
	"cmp"
	"errors"
	"net/netip"

	"shardway/keysource"
	"shardway/proxy/wrapkey"
)

// Spec describes where to find the keys of requests, in the terms of the configuration.
type Spec struct {
	// Sources are tried in order. Package keysource defines their syntax. Empty means
	// header:X-Shard-Key.
	Sources []string
	// Routes define other sources for requests below a path prefix. The longest prefix wins.
	Routes []Route
	// OnMissingKey is the policy for requests without a key: reject (the default), local, hash-path
	// or cookie.
	OnMissingKey string
	// BodyLimit is the maximum size in bytes of a body from which a key is read. Zero means the size
	// of the body buffer of the server.
	BodyLimit int
	// Cookie is the scope of the sticky cookie.
	Cookie keysource.CookieScope
}

// Route is one entry of Spec.Routes.
type Route = keysource.Route

// Keys is a key configuration. It does not change.
type Keys struct {
	rules
	services *services // nil means that the cluster has one service
	// usesProxies is set if the configuration itself defines the trusted proxies whose forwarding
	// headers count for keys. Otherwise those of the Extractor apply.
	usesProxies    bool
	trustedProxies []netip.Prefix
	wrapped        wrapkey.Fields // nil means that there are none
	bodyLimit      int            // Spec.BodyLimit
	headerNames    []string       // headers that contain a key, see keysource.Table.Headers; nil means none
}

// rules are the part of a key configuration that applies to the requests of one service.
type rules struct {
	service       string // empty if the key configuration has no services
	table         *keysource.Table
	missingPolicy keysource.Missing
	cookie        keysource.CookieScope
}

// CookieScope returns the scope of the sticky cookie of a service, without empty defaults. The name is
// that of Extractor.Service.
func (k *Keys) CookieScope(service string) keysource.CookieScope { return k.rulesOf(service).cookie }

// BodyLimit returns the maximum size in bytes of a body from which a key is read. bufferSize is the
// size of the body buffer of the server, which applies if the configuration has no limit.
func (k *Keys) BodyLimit(bufferSize int) int {
	return cmp.Or(k.bodyLimit, bufferSize)
}

// Parse reads a canonical key configuration, the result of keysource.Config.Canonical.
func Parse(text string) (*Keys, error) {
	config, err := keysource.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	keys, err := newKeys(&config)
	if err != nil {
		return nil, err
	}
	keys.usesProxies, keys.trustedProxies = config.UsesProxies(), config.TrustedProxies
	return keys, nil
}

// newKeys returns the Keys of a key configuration, without the trusted proxies.
func newKeys(config *keysource.Config) (*Keys, error) {
	if config.Services != nil {
		return NewForServices(config.Services, int(config.BodyBuffer))
	}
	return New(Spec{Sources: config.Sources, Routes: config.Routes, OnMissingKey: string(config.Missing), BodyLimit: int(config.BodyBuffer), Cookie: config.Cookie})
}

// New returns the Keys of a Spec. The error lists every problem found.
func New(spec Spec) (*Keys, error) {
	table, err := keysource.NewTable(keysource.Spec{Sources: spec.Sources, Routes: spec.Routes})
	missing, missingErr := keysource.ParseMissing(spec.OnMissingKey)
	if missingErr != nil || err != nil {
		return nil, errors.Join(err, missingErr)
	}
	return &Keys{
		rules:     rules{table: table, missingPolicy: missing, cookie: spec.Cookie.WithDefaults()},
		bodyLimit: spec.BodyLimit, wrapped: wrapkey.NewFields(table.Wrapped()), headerNames: table.Headers(),
	}, nil
}
