package node

import (
	"context"
	"fmt"
	"maps"

	"shardway/admin/api"
	"shardway/node/campaign"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/node/crashdetect"
	"shardway/node/leaderloop"
	"shardway/node/logs"
	"shardway/node/rotation"
)

// handlers returns the handlers of the control requests that other nodes send to this node, by kind.
func (n *Node) handlers() map[control.Kind]control.Handler {
	all := n.leaderHandlers()
	maps.Copy(all, n.membershipHandlers())
	maps.Copy(all, n.localHandlers())
	rotate := func(ctx context.Context, from control.Caller, q control.Request) (any, error) {
		return n.rotation.Answer(ctx, from.Node, string(q.Kind), q.Proven, from.Binding)
	}
	all[rotation.AskStep], all[rotation.AskLead] = rotate, rotate
	return all
}

// leaderHandlers returns the handlers of requests that only a leader can handle. While this node does not
// lead, those in asLeader reply control.ErrNotLeader.
func (n *Node) leaderHandlers() map[control.Kind]control.Handler {
	return map[control.Kind]control.Handler{
		control.NodeViews: n.asLeader(func(ctx context.Context, l *leaderloop.Leadership, _ control.Caller, _ control.Request) (any, error) {
			views, _ := l.View(ctx)
			return leaderloop.WireMembers(views)
		}),
		control.AdminAction: n.asLeader(func(ctx context.Context, l *leaderloop.Leadership, from control.Caller, q control.Request) (any, error) {
			// The admin port has already logged an action that an operator requests at this node.
			a := q.Action
			l.Log.Info().Stringer("action", a.Verb).Str("peer", logs.Cut(a.Node)).Bool("force", a.Force).Str("by", logs.Cut(a.By)).Str("at", from.Node).Msg("action requested")
			return nil, l.Do(ctx, a)
		}),
		control.Leave: n.asLeader(func(ctx context.Context, l *leaderloop.Leadership, from control.Caller, q control.Request) (any, error) {
			return nil, l.RemoveStopping(ctx, from.Node, q.Server)
		}),
		control.Timing: n.asLeader(func(ctx context.Context, l *leaderloop.Leadership, _ control.Caller, q control.Request) (any, error) {
			return l.ChangeTiming(ctx, q.Timing, q.By)
		}),
		control.FormatVersion: n.asLeader(func(ctx context.Context, l *leaderloop.Leadership, _ control.Caller, q control.Request) (any, error) {
			return l.Upgrade(ctx, q.Execute, q.By)
		}),
		control.Plan: n.asLeader(func(ctx context.Context, l *leaderloop.Leadership, _ control.Caller, _ control.Request) (any, error) {
			return l.Plan(ctx)
		}),
		control.Settings: n.asLeader(func(ctx context.Context, l *leaderloop.Leadership, from control.Caller, q control.Request) (any, error) {
			views, _ := l.View(ctx)
			return l.SettingsDifferences(views, from.Node, q.Settings)
		}),
		control.Implicated: n.asLeader(func(_ context.Context, _ *leaderloop.Leadership, from control.Caller, q control.Request) (any, error) {
			reports, err := control.Decode[[]crashdetect.CrashReport](q.Implicated)
			if err == nil {
				n.poisonDetector.Record(from.Node, reports)
			}
			return nil, err
		}),
		control.Unconfirmed: n.asLeader(func(context.Context, *leaderloop.Leadership, control.Caller, control.Request) (any, error) {
			return n.monitor.Unconfirmed(), nil
		}),
		control.Release: func(_ context.Context, from control.Caller, q control.Request) (any, error) {
			return nil, n.leaderInbox.deliverReleases(from.Node, q.Releases)
		},
		control.Suspects: func(context.Context, control.Caller, control.Request) (any, error) {
			return n.poisonDetector.Suspects(), nil
		},
	}
}

// membershipHandlers returns the handlers of requests about the nodes of the cluster: their creation of the
// cluster, identity and reachability.
func (n *Node) membershipHandlers() map[control.Kind]control.Handler {
	return map[control.Kind]control.Handler{
		control.BootstrapPromise: func(ctx context.Context, from control.Caller, q control.Request) (any, error) {
			return n.bootstrapper.HandlePromise(ctx, from.Node, q.Execute)
		},
		control.NeedsPromise: func(context.Context, control.Caller, control.Request) (any, error) {
			return n.bootstrapper.HandleNeedsPromise()
		},
		control.Duplicate: func(ctx context.Context, from control.Caller, q control.Request) (any, error) {
			return n.duplicates.Probe(ctx, from.Node, q.Nonce), nil
		},
		control.Identity: func(context.Context, control.Caller, control.Request) (any, error) { return n.process(), nil },
		control.SuspectsLeader: func(ctx context.Context, from control.Caller, _ control.Request) (any, error) {
			report, err := n.suspicion.Report(ctx, consensus.ServerID(from.Node, from.Disk))
			return campaign.WireReportOf(report), err
		},
		control.Reachable: func(ctx context.Context, from control.Caller, _ control.Request) (any, error) {
			return n.monitor.Reach(ctx, from.Node), nil
		},
		control.Forget: func(_ context.Context, from control.Caller, q control.Request) (any, error) {
			if from.Node != n.view.Leader() {
				return nil, fmt.Errorf("%w: node %q does not lead", api.ErrRefused, from.Node)
			}
			n.gossip.Forget(q.Server)
			return nil, nil //nolint:nilnil // the reply has no value
		},
	}
}

// localHandlers returns the handlers of the control requests that any node can answer about itself: idle
// shards, load, in-flight requests, drain progress, WebSockets and its diagnostic report.
func (n *Node) localHandlers() map[control.Kind]control.Handler {
	return map[control.Kind]control.Handler{
		control.Idle: func(_ context.Context, _ control.Caller, q control.Request) (any, error) {
			if len(q.StagedIdle) == 0 {
				return n.idleTracker.Answer(), nil
			}
			query, err := control.Decode[leaderloop.StagedIdleRequest](q.StagedIdle)
			if err != nil {
				return nil, err
			}
			return n.idleTracker.AnswerStage(query), nil
		},
		control.Load:    func(context.Context, control.Caller, control.Request) (any, error) { return n.proxy.Load(), nil },
		control.Running: func(context.Context, control.Caller, control.Request) (any, error) { return n.api.Running.LocalReport(), nil },
		control.Drain:   func(context.Context, control.Caller, control.Request) (any, error) { return n.api.LocalDrain(), nil },
		control.WebSocketCounts: func(context.Context, control.Caller, control.Request) (any, error) {
			return n.api.WebSockets.LocalReport(), nil
		},
		control.CloseWebSockets: func(_ context.Context, _ control.Caller, q control.Request) (any, error) {
			return n.api.WebSockets.BreakLocal(q.WebSockets, q.By), nil
		},
		control.Report: func(ctx context.Context, _ control.Caller, q control.Request) (any, error) {
			return n.api.LocalReport(ctx, q.Execute), nil
		},
	}
}

// leaderHandler handles a request of another node while this node leads.
type leaderHandler func(context.Context, *leaderloop.Leadership, control.Caller, control.Request) (any, error)

// asLeader returns a handler that calls handle while this node leads, and otherwise returns
// control.ErrNotLeader.
func (n *Node) asLeader(handle leaderHandler) control.Handler {
	return func(ctx context.Context, from control.Caller, q control.Request) (any, error) {
		leadership := n.leaderClient.Leadership()
		if leadership == nil {
			return nil, control.ErrNotLeader
		}
		return handle(ctx, leadership, from, q)
	}
}
