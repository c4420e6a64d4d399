package admin

// HashName names the function from key to shard in Map.Hash: xxhash64 of the
// key's bytes with seed 0, modulo the number of shards.
const HashName = "xxhash64"

// Map is the answer of GET /v1/map: all that a client needs to route by itself.
type Map struct {
	Epoch  uint64    `json:"epoch"`
	Shards int       `json:"shards"`
	Hash   string    `json:"hash"` // HashName; the server fills it in
	Nodes  []MapNode `json:"nodes"`
	Owners []int     `json:"owners"` // per shard an index into Nodes; -1 is orphaned
}

// MapNode is one owner in a Map.
type MapNode struct {
	ID   string `json:"id"`
	HTTP string `json:"http"` // its endpoint "http"; empty while not known
}

// Location is the answer of GET /v1/locate.
type Location struct {
	Key      string `json:"key"`
	Shard    uint32 `json:"shard"`
	Owner    string `json:"owner"`    // empty when orphaned
	Endpoint string `json:"endpoint"` // of the owner, for app traffic
	Epoch    uint64 `json:"epoch"`    // of the committed map
	// Unserved and StaleReturn are as in Shard.
	Unserved    string `json:"unserved,omitempty"`
	StaleReturn bool   `json:"stale_return,omitempty"`
}
