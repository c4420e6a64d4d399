package route

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// TableSpec is what a Table is made from.
type TableSpec struct {
	// Generation counts tables: it grows at every swap, also when only the
	// lease came back, for requests wait for a generation newer than the one
	// they saw.
	Generation uint64
	// Committed and Proposed are the epochs of the committed map and of the last
	// proposal that went into the table. A node that has applied no proposal
	// since the commit says the committed epoch twice, or less than it.
	Committed, Proposed uint64
	// Shards is the number of shards.
	Shards int
	// Before is the table in whose place this one comes; nil: there was none, or it
	// does not matter since when a shard has been served here.
	Before *Table
	// Keys is the active key configuration of the cluster; nil: the settings have it.
	Keys *shardkey.Keys
	// KeysSince is the epoch of the committed map with which Keys became active: what was
	// forwarded by an earlier map was keyed by other ones.
	KeysSince uint64
	// Route is asked once for each shard, in order. One of no known kind is Held, as a
	// shard that nobody owns is.
	Route func(s shardmap.Shard) Route
}

// Table says of each shard what becomes of its requests. It never changes once
// made: a node makes a new one and stores it in one atomic pointer.
type Table struct {
	generation, committed, proposed uint64
	index                           []uint16 // shard → place in routes
	routes                          []Route  // each kind of route once
	since                           []uint64 // by shard, the table since which it is Local; zero: it is not. Nil: not known
	mapValue                        []byte   // value of Shardway-Map
	keys                            *shardkey.Keys
	keysSince                       uint64
}

// NewTable makes a Table. It panics if there are more than 65 536 shards or
// different routes: the number of shards is bounded where a cluster is born.
func NewTable(spec TableSpec) *Table {
	t := &Table{
		generation: spec.Generation,
		committed:  spec.Committed,
		proposed:   spec.Proposed,
		index:      make([]uint16, spec.Shards),
		mapValue:   AppendEpochs(nil, spec.Committed, spec.Proposed),
		keys:       spec.Keys, keysSince: spec.KeysSince,
	}
	places := make(map[Route]uint16)
	for s := range t.index {
		r := spec.Route(shardmap.Shard(s))
		if r.Kind != Local && r.Kind != Remote && r.Kind != Held {
			r = Route{Kind: Held, Reason: ReasonOrphaned}
		}
		i, ok := places[r]
		if !ok {
			if len(t.routes) > math.MaxUint16 {
				panic(fmt.Sprintf("proxy: more than %d routes", math.MaxUint16+1))
			}
			i = uint16(len(t.routes))
			places[r] = i
			t.routes = append(t.routes, r)
		}
		t.index[s] = i
	}
	t.count(spec.Before)
	return t
}

// count notes since which table each shard is Local.
func (t *Table) count(before *Table) {
	if before == nil {
		return
	}
	t.since = make([]uint64, len(t.index))
	for s := range t.index {
		if t.Route(shardmap.Shard(s)).Kind != Local {
			continue
		}
		t.since[s] = t.generation
		if s < len(before.index) && before.Route(shardmap.Shard(s)).Kind == Local {
			t.since[s] = before.generation
			if before.since != nil {
				t.since[s] = before.since[s]
			}
		}
	}
}

// NewTo reports that the shard is not served here, or has not been ever since the
// table of that generation.
func (t *Table) NewTo(s shardmap.Shard, generation uint64) bool {
	return int(s) < len(t.since) && (t.since[s] == 0 || t.since[s] > generation)
}

// Generation returns the number of the table: it grows at every swap.
func (t *Table) Generation() uint64 { return t.generation }

// Committed returns the epoch of the committed map.
func (t *Table) Committed() uint64 { return t.committed }

// Proposed returns the epoch of the last proposal.
func (t *Table) Proposed() uint64 { return t.proposed }

// Keys returns the active key configuration of the cluster, or nil if the settings define it.
func (t *Table) Keys() *shardkey.Keys { return t.keys }

// KeysSince returns the epoch of the committed map with which Keys became active.
func (t *Table) KeysSince() uint64 { return t.keysSince }

// EpochsHeader returns the value of Shardway-Map. The caller must not change it.
func (t *Table) EpochsHeader() []byte { return t.mapValue }

// Shards returns the number of shards.
func (t *Table) Shards() int { return len(t.index) }

// Route returns what becomes of requests for s. The value is shared: it is not
// to be changed. It panics unless s < t.Shards().
func (t *Table) Route(s shardmap.Shard) *Route { return &t.routes[t.index[s]] }

// Anywhere returns some shard that another node serves, with its route: for a request
// that any app may answer. Without one it is a shard of another kind.
func (t *Table) Anywhere() (shardmap.Shard, *Route) {
	first := rand.IntN(t.Shards()) //nolint:gosec // it spreads load and keeps no secret
	s := shardmap.Shard(first)
	for i := range t.Shards() {
		if s = shardmap.Shard((first + i) % t.Shards()); t.Route(s).Kind == Remote {
			break
		}
	}
	return s, t.Route(s)
}

// AppendEpochs appends the value of Shardway-Map: both epochs, decimal.
func AppendEpochs(dst []byte, committed, proposed uint64) []byte {
	dst = strconv.AppendUint(dst, committed, 10)
	dst = append(dst, ' ')
	return strconv.AppendUint(dst, proposed, 10)
}

// ParseEpochs reads the value of Shardway-Map. Anything but two decimal numbers
// with one space between them gives ok false.
func ParseEpochs(v []byte) (committed, proposed uint64, ok bool) {
	for i, c := range v {
		if c != ' ' {
			continue
		}
		committed, ok1 := ParseUint(v[:i])
		proposed, ok2 := ParseUint(v[i+1:])
		return committed, proposed, ok1 && ok2
	}
	return 0, 0, false
}

// ParseUint reads a decimal number without sign, and without allocating.
func ParseUint(v []byte) (n uint64, ok bool) {
	if len(v) == 0 || len(v) > 20 {
		return 0, false
	}
	for _, c := range v {
		d := uint64(c) - '0'
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
