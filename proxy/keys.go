package proxy

import (
	"errors"

	"shardway/keysource"
)

// KeySpec says where the keys of requests are found, in the words of the
// configuration.
type KeySpec struct {
	// Sources are tried in order, as package keysource reads them. Empty means
	// header:X-Shard-Key.
	Sources []string
	// Routes give requests below a path prefix sources of their own. The longest
	// prefix counts.
	Routes []KeyRoute
	// OnMissing says what a request without a key gets: reject (the default),
	// local, hash-path or cookie.
	OnMissing string
}

// KeyRoute is one line of KeySpec.Routes.
type KeyRoute = keysource.Route

// Keys finds the key of a request. It never changes once made.
type Keys struct {
	table   *keysource.Table
	missing keysource.Missing
}

// NewKeys reads a KeySpec. The error names every mistake in it.
func NewKeys(spec KeySpec) (*Keys, error) {
	table, err := keysource.NewTable(keysource.Spec{Sources: spec.Sources, Routes: spec.Routes})
	missing, bad := keysource.ParseMissing(spec.OnMissing)
	if bad != nil || err != nil {
		return nil, errors.Join(err, bad)
	}
	return &Keys{table: table, missing: missing}, nil
}
