package recovery

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/registry"
	"shardway/shardmap"
)

// Survivor describes the state of the cluster in a data directory. Among several survivors, the one with the highest
// EntryTerm, and then the highest Index, has the newest state.
type Survivor struct {
	Node    string `json:"node"`
	Cluster string `json:"cluster"`
	Shards  int    `json:"shards"`
	// Index and EntryTerm are the index and the Raft term of the last entry in the log. Term is the newest
	// term of the node, which may have begun after that entry.
	Index     uint64 `json:"index"`
	EntryTerm uint64 `json:"entry_term"`
	Term      uint64 `json:"term"`
	// Epoch is the epoch of the last map that is committed according to the log.
	Epoch uint64 `json:"epoch"`
	// Peers contains all nodes of the last Raft configuration and of that map.
	Peers []Peer `json:"nodes"`

	state    *ack.State
	registry *registry.State
}

// Peer is one node of the old cluster. Here is set for the node that the data directory belongs to.
type Peer struct {
	ID     string `json:"id"`
	Voter  bool   `json:"voter"`
	Shards int    `json:"shards"`
	Here   bool   `json:"here"`
}

// readSurvivor reads the log of an open data directory.
func readSurvivor(dir *disk.Dir, log zerolog.Logger) (Survivor, error) {
	stores, err := dir.OpenStores(disk.StoreOptions{Log: log})
	if err != nil {
		return Survivor{}, err
	}
	replayed := &logReplayer{state: ack.NewState(), registry: registry.NewState()}
	raftState, err := consensus.Replay(stores, replayed)
	if err != nil {
		return Survivor{}, err
	}
	state := replayed.state
	if !state.Bootstrapped() {
		return Survivor{}, fmt.Errorf("recovery: the log of node %q contains no bootstrap entry: recover from another survivor", dir.Node())
	}
	return Survivor{
		Node: dir.Node(), Cluster: state.ClusterID(), Shards: state.Shards(), Epoch: uint64(state.Committed().Epoch()),
		Index: raftState.LastIndex, EntryTerm: raftState.LastEntryTerm, Term: max(raftState.CurrentTerm, raftState.LastEntryTerm),
		Peers: peers(raftState.Servers, state.Committed(), dir.Node()),
		state: state, registry: replayed.registry,
	}, nil
}

// peers returns the nodes of servers and of the committed map, sorted by ID. localID is the node that the data
// directory belongs to.
func peers(servers []consensus.Server, committed *shardmap.Map, localID string) []Peer {
	known := map[string]Peer{}
	for _, server := range servers {
		known[server.Node()] = Peer{Voter: server.Voter}
	}
	for _, member := range committed.Members() {
		peer := known[string(member.ID)]
		peer.Shards = committed.ShardCount(member.ID)
		known[string(member.ID)] = peer
	}
	all := make([]Peer, 0, len(known))
	for id, peer := range known {
		peer.ID, peer.Here = id, id == localID
		all = append(all, peer)
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// logReplayer rebuilds the replicated state from a Raft log.
type logReplayer struct {
	state    *ack.State
	registry *registry.State
}

var _ consensus.FSM = (*logReplayer)(nil)

// Apply applies an entry. It returns an error if the entry is invalid, which stops the replay.
func (r *logReplayer) Apply(index, term uint64, data []byte) any {
	s, outcome, err := r.state.Apply(index, term, data)
	if err == nil && outcome == ack.OutcomeRegistry {
		_, err = r.registry.Apply(index, ack.RegistryCommand(data))
	}
	if err != nil {
		return err
	}
	r.state = s
	return nil
}

// Snapshot returns the encoded state.
func (r *logReplayer) Snapshot() ([]byte, error) {
	return r.state.MarshalWithRegistry(r.registry.Marshal())
}

// Restore replaces the state by that of a snapshot.
func (r *logReplayer) Restore(b []byte) error {
	s, encoded, err := ack.DecodeWithRegistry(b)
	if err != nil {
		return err
	}
	restored, err := registry.Decode(encoded)
	if err == nil {
		r.state, r.registry = s, restored
	}
	return err
}
