package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"shardway/admin/api"
	"shardway/admin/client"
)

// serviceFlag selects a service of the cluster.
type serviceFlag struct {
	Service string `help:"Service of the shard; shard numbers count within it (default: default)." placeholder:"NAME"`
}

// serviceFilterFlag restricts the output to a service of the cluster.
type serviceFilterFlag struct {
	Service string `help:"Only the shards of this service." placeholder:"NAME"`
}

type serviceCommand struct {
	List   serviceListCommand   `cmd:"" default:"withargs" help:"List the services, their nodes and owners."`
	Add    serviceAddCommand    `cmd:"" help:"Add a service with its own shards."`
	Remove serviceRemoveCommand `cmd:"" help:"Remove a service that no node runs."`
}

type serviceListCommand struct{ target }

// Help explains the columns.
func (c *serviceListCommand) Help() string {
	return `NODES are the nodes that run the service, OWNERS the numbers of shards by owner. RANGE
is the range of the service in the map of all services, and CONFIGURED shows whether
the active key configuration names the service. A service is "not started" until a
node runs it for the first time. A cluster without services has the service default.`
}

// Run prints the services.
func (c *serviceListCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Services(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, list)
	}
	return writeServices(session.out, list.Services)
}

// writeServices prints one row for each service.
func writeServices(w io.Writer, services []api.Service) error {
	table := newTable(w, "SERVICE", "SHARDS", "NODES", "OWNERS", "MOVING", "ORPHANED", "CONFIGURED", "RANGE")
	for _, service := range services {
		configured := "no"
		if service.Configured {
			configured = "yes"
		}
		owners := []string{}
		for _, node := range slices.Sorted(maps.Keys(service.Owners)) {
			owners = append(owners, fmt.Sprintf("%s:%d", node, service.Owners[node]))
		}
		if !service.Started {
			owners = []string{"not started"}
		}
		shardRange := fmt.Sprintf("%d-%d", service.First, int(service.First)+service.Shards-1)
		table.row(service.Name, service.Shards, strings.Join(service.Nodes, ","), strings.Join(owners, ","), service.Moving, service.Orphaned, configured, shardRange)
	}
	return table.flush()
}

type serviceAddCommand struct {
	Name   string `arg:"" help:"Name of the service."`
	Shards uint32 `required:"" help:"Number of shards, which cannot change later." placeholder:"N"`
	reasonFlag
	target
}

// Help explains when the command is needed.
func (c *serviceAddCommand) Help() string {
	return `The leader adds a service itself once all nodes have loaded a configuration that
contains it. With this command, the cluster has the service earlier. The shards get
owners when a node runs the service. The number of shards must be that of
services.NAME.shards in the configuration. The shards of other services do not move.`
}

// Run adds a service.
func (c *serviceAddCommand) Run(ctx context.Context, session *session) error {
	return c.runAction(ctx, session, api.Action{Verb: api.AddService, Service: c.Name, Shards: c.Shards, Reason: c.Reason},
		fmt.Sprintf("service %s has %s; its shards get owners when a node runs it", c.Name, pluralize(int(c.Shards), "shard")))
}

type serviceRemoveCommand struct {
	Name string `arg:"" help:"Name of the service."`
	reasonFlag
	target
}

// Help lists the conditions.
func (c *serviceRemoveCommand) Help() string {
	return `The leader refuses the command while a node runs the service, while one of its shards has
an owner, and while the active key configuration names the service. Remove the service
from the configuration of all nodes first. The command also deletes the pins and the
quarantines of the service.`
}

// Run removes a service.
func (c *serviceRemoveCommand) Run(ctx context.Context, session *session) error {
	return c.runAction(ctx, session, api.Action{Verb: api.RemoveService, Service: c.Name, Reason: c.Reason}, "service "+c.Name+" is removed")
}

// describeShard returns the number of a shard for texts. With services, it is a number within the service.
func describeShard(shard uint32, service string, inService *uint32) string {
	if inService != nil {
		shard = *inService
	}
	if service == "" {
		return fmt.Sprintf("shard %d", shard)
	}
	return fmt.Sprintf("shard %d of service %s", shard, service)
}

// shardNumber returns the number of a shard for tables: the number within its service, if it has one.
func shardNumber(shard uint32, inService *uint32) uint32 {
	if inService != nil {
		return *inService
	}
	return shard
}

// withService adds the column or the value of the service at the front of a row, if the cluster has services.
func withService[T any](hasServices bool, service T, row ...T) []T {
	if !hasServices {
		return row
	}
	return slices.Insert(row, 0, service)
}

// filtersService reports whether the output must be restricted to a service. It returns an error if the cluster does not
// have the service. An empty name means no restriction.
func filtersService(ctx context.Context, node *client.Client, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	list, err := node.Services(ctx)
	if err != nil {
		return false, err
	}
	names := make([]string, len(list.Services))
	for i, service := range list.Services {
		names[i] = service.Name
	}
	if !slices.Contains(names, name) {
		return false, fmt.Errorf("--service %s is not a service of the cluster: give one of %s", name, strings.Join(names, ", "))
	}
	return len(names) > 1, nil
}
