package adminapi

import (
	"cmp"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/join"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// Joins returns the records of join requests in the log. Servers without a record, as with automatic approval, have the
// stage that this node observes.
func (a *API) Joins() api.JoinList {
	state := a.options.View.State()
	list := api.JoinList{Approval: "auto", Timeout: timingrules.Short(a.options.JoinTimeout), Joins: []api.NodeJoin{}}
	if a.options.ManualJoins {
		list.Approval = "manual"
	}
	known := map[string]bool{}
	for _, record := range state.Joins().All() {
		known[record.Server] = true
		list.Joins = append(list.Joins, joinOf(record))
	}
	voters, nonvoters := a.options.View.Servers()
	for _, server := range slices.Concat(voters, nonvoters) {
		if !known[server] {
			known[server] = true
			list.Joins = append(list.Joins, api.NodeJoin{Node: consensus.NodeOf(server), Server: server, Stage: a.observedStage(state, server).String()})
		}
	}
	for _, member := range a.options.View.Gossip.Members() {
		server := consensus.ServerID(member.ID, member.Tags.Disk)
		isWaiting := member.Node && member.Status == gossip.Alive && member.Tags.Disk != "" && state.Bootstrapped()
		if isWaiting && !known[server] {
			list.Joins = append(list.Joins, api.NodeJoin{Node: member.ID, Server: server, Stage: join.Requested.String()})
		}
	}
	slices.SortFunc(list.Joins, func(a, b api.NodeJoin) int { return cmp.Compare(a.Server, b.Server) })
	return list
}

// observedStage returns the stage of a server in the configuration. A voter has caught up with the log.
func (a *API) observedStage(state *ack.State, server string) join.Stage {
	node := consensus.NodeOf(server)
	isGateway := slices.ContainsFunc(a.options.View.Gossip.Members(), func(member gossip.Member) bool {
		return member.ID == node && member.Tags.Role == gossip.RoleGateway
	})
	voters, _ := a.options.View.Servers()
	switch {
	case state.Committed().IsMember(shardmap.NodeID(node)) || isGateway:
		return join.Active
	case slices.Contains(voters, server):
		return join.Synchronized
	}
	return join.Accepted
}

// joinOf converts a record to the form of the admin API.
func joinOf(record join.Record) api.NodeJoin {
	result := api.NodeJoin{
		Node: record.Node(), Server: record.Server, Stage: record.Stage.String(), Ticket: record.Ticket, Reason: record.Reason,
		EffectiveIndex: record.EffectiveIndex, Snapshot: record.Snapshot,
	}
	for i, begin := range record.History {
		stage := api.JoinStage{Stage: begin.Stage.String(), At: time.UnixMilli(int64(begin.UnixMilli)).UTC().Format(time.RFC3339Nano)}
		if i+1 < len(record.History) {
			stage.MS = max(record.History[i+1].UnixMilli, begin.UnixMilli) - begin.UnixMilli
		}
		result.Stages = append(result.Stages, stage)
	}
	return result
}
