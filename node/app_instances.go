package node

import (
	"cmp"
	"context"

	"shardway/ack"
	"shardway/node/apphealth"
	"shardway/node/appinstance"
	"shardway/node/eventlog"
	"shardway/shardmap"
)

// AppInstance contains the functions with which a node watches one of its app instances.
type AppInstance struct {
	// Check makes one health check of the instance. nil means that the instance is not configured, because its
	// address was removed from the configuration.
	Check func(ctx context.Context) error
	// Reported returns the name of the app process, as Options.AppInstance does.
	Reported func() string
}

// appIsInProcess reports whether the app runs in this process or the node is a gateway. A node whose first instance
// is not configured has others.
func (o *Options) appIsInProcess() bool { return o.CheckApp == nil && len(o.FurtherInstances) == 0 }

// newAppWatch returns the watch of the first app instance. It returns nil if shards may return at any time.
func newAppWatch(o *Options, newestState func() *ack.State) *appinstance.Watch {
	if !o.AfterRestart || o.Gateway {
		return nil
	}
	return appinstance.NewWatch(appinstance.Options{Dir: o.Dir, NewestState: newestState, InProcess: o.appIsInProcess(), Log: o.Log})
}

// newAppHealth creates the watches and the checkers of all app instances.
func (n *Node) newAppHealth() {
	instances := append([]AppInstance{{Check: n.options.CheckApp, Reported: n.options.AppInstance}}, n.options.FurtherInstances...)
	n.appWatches = make([]*appinstance.Watch, len(instances))
	n.appWatches[0] = newAppWatch(&n.options, n.fsm.state.Load)
	if n.options.appIsInProcess() {
		return
	}
	checkers := make([]*apphealth.Checker, len(instances))
	for i, instance := range instances {
		if i > 0 && n.appWatches[0] != nil {
			n.appWatches[i] = n.appWatches[0].ForInstance(shardmap.Instance(i))
		}
		if instance.Check == nil {
			continue
		}
		log := n.options.Log
		if len(instances) > 1 {
			log = log.With().Int("instance", shardmap.Instance(i).Number()).Logger()
		}
		check := n.appWatches[i].WrapCheck(instance.Check, instance.Reported)
		checkers[i] = apphealth.NewChecker(check, cmp.Or(n.options.Health, apphealth.DefaultSettings()), &n.scheduler, log, func() { n.onInstanceHealthChange(shardmap.Instance(i)) })
	}
	n.health = apphealth.NewGroup(checkers...)
	if len(instances) > 1 {
		n.instances = appinstance.NewSelection(n.self, n.options.Dir, n.health, n.appWatches, n.options.Log)
	}
}

// onInstanceHealthChange is called when an app instance has become healthy or unhealthy.
func (n *Node) onInstanceHealthChange(instance shardmap.Instance) {
	if n.instances == nil {
		n.onAppHealthChange()
		return
	}
	n.events.Add(eventlog.InstanceHealth(n.self, instance, n.health.IsHealthy(int(instance))))
	n.updateAfterHealthChange()
}
