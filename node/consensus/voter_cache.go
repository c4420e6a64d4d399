package consensus

import (
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// voterCache caches the voters of the last configuration, because each heartbeat needs them.
type voterCache struct {
	last atomic.Pointer[cachedVoters] // nil means none
}

// cachedVoters are the voters of one configuration.
type cachedVoters struct {
	servers []raft.Server // slice of the Raft library, which creates a new one for each change
	voters  []string
}

// votersOf returns the IDs of the voters in a configuration, sorted. The caller must not modify the
// result.
func (c *voterCache) votersOf(configuration raft.Configuration) []string {
	servers := configuration.Servers
	if len(servers) == 0 {
		return nil
	}
	if last := c.last.Load(); last != nil && len(last.servers) == len(servers) && &last.servers[0] == &servers[0] {
		return last.voters
	}
	current := &cachedVoters{servers: servers}
	for _, server := range fromLibrary(configuration) {
		if server.Voter {
			current.voters = append(current.voters, server.ID)
		}
	}
	slices.Sort(current.voters)
	c.last.Store(current)
	return current.voters
}
