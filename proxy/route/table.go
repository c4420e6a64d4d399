package route

import (
	"fmt"
	"math"
	"strconv"

	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// TableSpec is the input of NewTable.
type TableSpec struct {
	// Generation is the number of the table. It increases with each table, even if only the lease
	// has returned, because queued requests wait for a higher generation.
	Generation uint64
	// Committed and Proposed are the epochs of the committed map and of the last proposal in the
	// table. Without a proposal since the commit, Proposed is not higher than Committed.
	Committed, Proposed uint64
	// Shards is the number of shards.
	Shards int
	// Previous is the previous table. If it is nil, the table does not record since when each shard
	// has been served here.
	Previous *Table
	// Keys is the active key configuration of the cluster. nil means that the settings define it.
	Keys *shardkey.Keys
	// KeysSince is the epoch of the committed map with which Keys became active. Requests forwarded
	// under an older map had their keys found with a different configuration.
	KeysSince uint64
	// Services contains the range of each service. nil means that the cluster has only the service
	// DefaultService, with all shards. A service whose range exceeds Shards is left out: the map does not
	// contain its shards yet.
	Services []Service
	// Route returns the route of a shard. NewTable calls it once for each shard, in order. A route
	// of an unknown kind is treated as Queued, like an orphaned shard.
	Route func(s shardmap.Shard) Route
}

// Table maps each shard to its route. It does not change.
type Table struct {
	generation, committed, proposed uint64
	routeIndex                      []uint16 // by shard, the index in routes
	routes                          []Route  // distinct routes
	localSince                      []uint64 // by shard, the generation since which it has been Local; zero means that it is not; nil means unknown
	mapHeaderValue                  []byte   // value of Shardway-Map
	keys                            *shardkey.Keys
	keysSince                       uint64
	services                        map[string]Service // by name; nil means that the cluster has one service
}

// NewTable returns a Table. It panics with more than 65,536 different routes. The number of shards
// is limited when a cluster is created.
func NewTable(spec TableSpec) *Table {
	table := &Table{
		generation:     spec.Generation,
		committed:      spec.Committed,
		proposed:       spec.Proposed,
		routeIndex:     make([]uint16, spec.Shards),
		mapHeaderValue: AppendEpochs(nil, spec.Committed, spec.Proposed),
		keys:           spec.Keys, keysSince: spec.KeysSince,
	}
	indexOf := make(map[Route]uint16)
	for s := range table.routeIndex {
		r := spec.Route(shardmap.Shard(s))
		if r.Kind != Local && r.Kind != Remote && r.Kind != Queued {
			r = Route{Kind: Queued, Reason: ReasonOrphaned}
		}
		i, ok := indexOf[r]
		if !ok {
			if len(table.routes) > math.MaxUint16 {
				panic(fmt.Sprintf("proxy: more than %d routes", math.MaxUint16+1))
			}
			i = uint16(len(table.routes))
			indexOf[r] = i
			table.routes = append(table.routes, r)
		}
		table.routeIndex[s] = i
	}
	table.setLocalSince(spec.Previous)
	table.setServices(spec.Services)
	return table
}

// setLocalSince records since which generation each shard is Local.
func (t *Table) setLocalSince(previous *Table) {
	if previous == nil {
		return
	}
	t.localSince = make([]uint64, len(t.routeIndex))
	for s := range t.routeIndex {
		if t.Route(shardmap.Shard(s)).Kind != Local {
			continue
		}
		t.localSince[s] = t.generation
		if s < len(previous.routeIndex) && previous.servedBySameInstance(t, shardmap.Shard(s)) {
			t.localSince[s] = previous.generation
			if previous.localSince != nil {
				t.localSince[s] = previous.localSince[s]
			}
		}
	}
}

// servedBySameInstance reports whether the same app instance serves the shard here in both tables.
// The shard must be Local in next.
func (t *Table) servedBySameInstance(next *Table, s shardmap.Shard) bool {
	previous := t.Route(s)
	return previous.Kind == Local && previous.Instance == next.Route(s).Instance
}

// IsNewTo reports whether the shard is not served here, or has been served here only since a table
// newer than generation.
func (t *Table) IsNewTo(shard shardmap.Shard, generation uint64) bool {
	return int(shard) < len(t.localSince) && (t.localSince[shard] == 0 || t.localSince[shard] > generation)
}

// Generation returns the number of the table. It increases with each table.
func (t *Table) Generation() uint64 { return t.generation }

// Committed returns the epoch of the committed map.
func (t *Table) Committed() uint64 { return t.committed }

// Proposed returns the epoch of the last proposal.
func (t *Table) Proposed() uint64 { return t.proposed }

// Keys returns the active key configuration of the cluster, or nil if the settings define it.
func (t *Table) Keys() *shardkey.Keys { return t.keys }

// KeysSince returns the epoch of the committed map with which Keys became active.
func (t *Table) KeysSince() uint64 { return t.keysSince }

// MapHeaderValue returns the value of Shardway-Map. The caller must not change it.
func (t *Table) MapHeaderValue() []byte { return t.mapHeaderValue }

// Shards returns the number of shards.
func (t *Table) Shards() int { return len(t.routeIndex) }

// Route returns the route of a shard, which the caller must not change. It panics unless the shard
// is below t.Shards().
func (t *Table) Route(shard shardmap.Shard) *Route { return &t.routes[t.routeIndex[shard]] }

// AppendEpochs appends the value of Shardway-Map: both epochs as decimal numbers.
func AppendEpochs(dst []byte, committed, proposed uint64) []byte {
	dst = strconv.AppendUint(dst, committed, 10)
	dst = append(dst, ' ')
	return strconv.AppendUint(dst, proposed, 10)
}

// ParseEpochs reads the value of Shardway-Map. ok is false unless it consists of two decimal
// numbers and one space between them.
func ParseEpochs(text []byte) (committed, proposed uint64, ok bool) {
	for i, c := range text {
		if c != ' ' {
			continue
		}
		committed, ok1 := ParseUint(text[:i])
		proposed, ok2 := ParseUint(text[i+1:])
		return committed, proposed, ok1 && ok2
	}
	return 0, 0, false
}

// ParseUint reads a decimal number without a sign. It does not allocate.
func ParseUint(text []byte) (n uint64, ok bool) {
	if len(text) == 0 || len(text) > 20 {
		return 0, false
	}
	for _, c := range text {
		digit := uint64(c) - '0'
		if digit > 9 || n > (math.MaxUint64-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}
