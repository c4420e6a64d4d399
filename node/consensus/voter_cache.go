package consensus

import (
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// voterCache caches the servers of the last configuration, because each heartbeat needs them.
type voterCache struct {
	last atomic.Pointer[cachedVoters] // nil means none
}

// cachedVoters are the voters and nonvoters of one configuration, sorted.
type cachedVoters struct {
	servers           []raft.Server // slice of the Raft library, which creates a new one for each change
	voters, nonvoters []string
}

// serversOf returns the IDs of the servers in a configuration. The caller must not modify the result.
func (c *voterCache) serversOf(configuration raft.Configuration) *cachedVoters {
	servers := configuration.Servers
	if len(servers) == 0 {
		return &cachedVoters{}
	}
	if last := c.last.Load(); last != nil && len(last.servers) == len(servers) && &last.servers[0] == &servers[0] {
		return last
	}
	current := &cachedVoters{servers: servers}
	for _, server := range fromLibrary(configuration) {
		if server.Voter {
			current.voters = append(current.voters, server.ID)
		} else {
			current.nonvoters = append(current.nonvoters, server.ID)
		}
	}
	slices.Sort(current.voters)
	slices.Sort(current.nonvoters)
	c.last.Store(current)
	return current
}
