package node

import (
	"context"
	"fmt"
	"maps"

	"shardway/admin/api"
	"shardway/node/adminapi"
	"shardway/node/campaign"
	"shardway/node/cluster"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/node/crashdetect"
	"shardway/node/findings"
	"shardway/node/gossip"
	"shardway/node/idleshards"
	"shardway/node/leaderloop"
	"shardway/node/logs"
	"shardway/node/membership"
	"shardway/node/rotation"
	"shardway/proxy"
)

// handlers returns the handlers of the control requests that other nodes send to this node, by kind.
func (n *Node) handlers() map[control.Kind]control.Handler {
	leaderRequests := leaderRequests{client: n.leaderClient, inbox: n.leaderInbox, poisonDetector: n.poisonDetector, monitor: n.monitor}
	membershipRequests := membershipRequests{
		view: n.view, gossip: n.gossip, identities: &n.identities, bootstrapper: n.bootstrapper, duplicates: n.duplicates, suspicion: n.suspicion, monitor: n.monitor, unreachable: n.unreachable, ownJoin: n.ownJoin,
	}
	localRequests := localRequests{api: n.api, proxy: n.proxy, idleTracker: n.idleTracker}
	all := leaderRequests.handlers()
	maps.Copy(all, membershipRequests.handlers())
	maps.Copy(all, localRequests.handlers())
	rotate := func(ctx context.Context, from control.Caller, request control.Request) (any, error) {
		return n.rotation.Answer(ctx, from.Node, string(request.Kind), request.Proven, from.Binding)
	}
	all[rotation.AskStep], all[rotation.AskLead] = rotate, rotate
	return all
}

// leaderRequests serves the requests that only a leader can serve.
type leaderRequests struct {
	client         *leaderloop.Client // contains the current leadership of this node
	inbox          *leaderInbox
	poisonDetector *crashdetect.PoisonDetector // detects keys whose requests crash apps
	monitor        *findings.Monitor
}

// handlers returns the handler of each kind of request. Handlers that asLeader has wrapped return
// control.ErrNotLeader if this node is not the leader, so that the requesting node asks the new one.
func (s leaderRequests) handlers() map[control.Kind]control.Handler {
	return map[control.Kind]control.Handler{
		control.NodeViews: s.asLeader(func(ctx context.Context, leadership *leaderloop.Leadership, _ control.Caller, _ control.Request) (any, error) {
			views, _ := leadership.View(ctx)
			return leaderloop.WireMembers(views)
		}),
		control.LeaderState: s.asLeader(func(ctx context.Context, leadership *leaderloop.Leadership, _ control.Caller, _ control.Request) (any, error) {
			state, isCurrent := leadership.State(ctx)
			if !isCurrent {
				return nil, control.ErrNotLeader
			}
			return state, nil
		}),
		control.AdminAction: s.asLeader(func(ctx context.Context, leadership *leaderloop.Leadership, from control.Caller, request control.Request) (any, error) {
			// The admin port has already logged an action that an operator requests at this node.
			action := request.Action
			leadership.Log.Info().Stringer("action", action.Verb).Str("peer", logs.Cut(action.Node)).Bool("force", action.Force).Str("by", logs.Cut(action.By)).Str("at", from.Node).Msg("action requested")
			return nil, leadership.Do(ctx, action)
		}),
		control.Leave: s.asLeader(func(ctx context.Context, leadership *leaderloop.Leadership, from control.Caller, request control.Request) (any, error) {
			return nil, leadership.RemoveStopping(ctx, from.Node, request.Server)
		}),
		control.Timing: s.asLeader(func(ctx context.Context, leadership *leaderloop.Leadership, _ control.Caller, request control.Request) (any, error) {
			return leadership.ChangeTiming(ctx, request.Timing, request.By)
		}),
		control.FormatVersion: s.asLeader(func(ctx context.Context, leadership *leaderloop.Leadership, _ control.Caller, request control.Request) (any, error) {
			return leadership.Upgrade(ctx, request.Execute, request.By)
		}),
		control.Registry: s.asLeader(func(ctx context.Context, leadership *leaderloop.Leadership, _ control.Caller, request control.Request) (any, error) {
			return leadership.AnswerRegistry(ctx, request.Registry)
		}),
		control.Plan: s.asLeader(func(ctx context.Context, leadership *leaderloop.Leadership, _ control.Caller, _ control.Request) (any, error) {
			return leadership.Plan(ctx)
		}),
		control.Settings: s.asLeader(func(ctx context.Context, leadership *leaderloop.Leadership, from control.Caller, request control.Request) (any, error) {
			views, _ := leadership.View(ctx)
			return leadership.SettingsDifferences(views, from.Node, request.Settings)
		}),
		control.Implicated: s.asLeader(func(_ context.Context, _ *leaderloop.Leadership, from control.Caller, request control.Request) (any, error) {
			reports, err := control.Decode[[]crashdetect.CrashReport](request.Implicated)
			if err == nil {
				s.poisonDetector.Record(from.Node, reports)
			}
			return nil, err
		}),
		control.Unconfirmed: s.asLeader(func(context.Context, *leaderloop.Leadership, control.Caller, control.Request) (any, error) {
			return s.monitor.Unconfirmed(), nil
		}),
		control.Release: func(_ context.Context, from control.Caller, request control.Request) (any, error) {
			return nil, s.inbox.deliverReleases(from.Node, request.Releases)
		},
		control.Suspects: func(context.Context, control.Caller, control.Request) (any, error) {
			return s.poisonDetector.Suspects(), nil
		},
	}
}

// membershipRequests serves the requests about the nodes of the cluster: their creation of the cluster,
// identity and reachability.
type membershipRequests struct {
	view         *cluster.View
	gossip       *gossip.Gossip
	identities   *identities
	bootstrapper *membership.Bootstrapper
	duplicates   *membership.DuplicateDetector
	suspicion    *campaign.Suspicion
	monitor      *findings.Monitor
	unreachable  *crashdetect.UnreachableOwners
	ownJoin      *membership.OwnJoin
}

// handlers returns the handlers by kind.
func (s membershipRequests) handlers() map[control.Kind]control.Handler {
	return map[control.Kind]control.Handler{
		control.BootstrapPromise: func(ctx context.Context, from control.Caller, request control.Request) (any, error) {
			return s.bootstrapper.HandlePromise(ctx, from.Node, request.Execute)
		},
		control.NeedsPromise: func(context.Context, control.Caller, control.Request) (any, error) {
			return s.bootstrapper.HandleNeedsPromise()
		},
		control.Duplicate: func(ctx context.Context, from control.Caller, request control.Request) (any, error) {
			return s.duplicates.Probe(ctx, from.Node, request.Nonce), nil
		},
		control.Identity: func(context.Context, control.Caller, control.Request) (any, error) { return s.identities.own(), nil },
		control.SuspectsLeader: func(ctx context.Context, from control.Caller, _ control.Request) (any, error) {
			report, err := s.suspicion.Report(ctx, consensus.ServerID(from.Node, from.Disk))
			return campaign.WireReportOf(report), err
		},
		control.Statement: func(context.Context, control.Caller, control.Request) (any, error) { return s.monitor.Statement(), nil },
		control.Reachable: func(ctx context.Context, from control.Caller, _ control.Request) (any, error) {
			return s.monitor.Reach(ctx, from.Node), nil
		},
		// A waiting node knows no leader. Each holder of the secret may send this request, which only changes what
		// the node reports about itself.
		control.JoinStatus: func(_ context.Context, _ control.Caller, request control.Request) (any, error) {
			status, err := control.Decode[membership.JoinStatus](request.Join)
			if err == nil {
				s.ownJoin.Receive(status)
			}
			return nil, err
		},
		control.CheckNode: s.fromLeader(func(request control.Request) { s.unreachable.Suspect(request.Server) }),
		control.Forget:    s.fromLeader(func(request control.Request) { s.gossip.Forget(request.Server) }),
	}
}

// fromLeader returns a handler that calls execute if the leader has sent the request, and refuses it otherwise.
func (s membershipRequests) fromLeader(execute func(control.Request)) control.Handler {
	return func(_ context.Context, from control.Caller, request control.Request) (any, error) {
		if from.Node != s.view.Leader() {
			return nil, fmt.Errorf("%w: node %q does not lead", api.ErrRefused, from.Node)
		}
		execute(request)
		return nil, nil //nolint:nilnil // the reply has no value
	}
}

// localRequests serves the requests that any node can answer about itself: idle shards, load, in-flight
// requests, drain progress, WebSockets and its diagnostic report.
type localRequests struct {
	api         *adminapi.API
	proxy       *proxy.Server
	idleTracker *idleshards.Tracker
}

// handlers returns the handlers by kind.
func (s localRequests) handlers() map[control.Kind]control.Handler {
	return map[control.Kind]control.Handler{
		control.Idle: func(_ context.Context, _ control.Caller, request control.Request) (any, error) {
			if len(request.StagedIdle) == 0 {
				return s.idleTracker.Answer(), nil
			}
			query, err := control.Decode[leaderloop.StagedIdleRequest](request.StagedIdle)
			if err != nil {
				return nil, err
			}
			return s.idleTracker.AnswerStage(query), nil
		},
		control.Load: func(context.Context, control.Caller, control.Request) (any, error) { return s.proxy.Load(), nil },
		control.Running: func(context.Context, control.Caller, control.Request) (any, error) {
			return s.api.Running.LocalReport(), nil
		},
		control.Drain: func(context.Context, control.Caller, control.Request) (any, error) { return s.api.LocalDrain(), nil },
		control.WebSocketCounts: func(context.Context, control.Caller, control.Request) (any, error) {
			return s.api.WebSockets.LocalReport(), nil
		},
		control.CloseWebSockets: func(_ context.Context, _ control.Caller, request control.Request) (any, error) {
			return s.api.WebSockets.BreakLocal(request.WebSockets, request.By), nil
		},
		control.Report: func(ctx context.Context, _ control.Caller, request control.Request) (any, error) {
			return s.api.LocalReport(ctx, request.Execute), nil
		},
	}
}

// leaderHandler is a handler that is called only while this node leads.
type leaderHandler func(context.Context, *leaderloop.Leadership, control.Caller, control.Request) (any, error)

// asLeader returns a handler that calls handler while this node leads, and otherwise returns
// control.ErrNotLeader.
func (s leaderRequests) asLeader(handler leaderHandler) control.Handler {
	return func(ctx context.Context, from control.Caller, request control.Request) (any, error) {
		leadership := s.client.Leadership()
		if leadership == nil {
			return nil, control.ErrNotLeader
		}
		return handler(ctx, leadership, from, request)
	}
}
