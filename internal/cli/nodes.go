package cli

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/admin/api"
	"shardway/admin/client"
	"shardway/internal/nodelabel"
)

type nodesCommand struct{ target }

// Run lists the nodes.
func (c *nodesCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Nodes(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, list)
	}
	if err := writeNodes(session.out, list.Nodes); err != nil {
		return err
	}
	return writeLabels(session.out, list.Nodes)
}

// writeLabels prints the version of Shardway of each node, and its region, its roles and its metadata.
func writeLabels(w io.Writer, nodes []api.Node) error {
	table := newTable(w, "\nNODE", "VERSION", "REGION", "ROLES", "META")
	for _, node := range nodes {
		table.row(node.ID, node.Version, node.Region, strings.Join(node.Roles, ","), nodelabel.Meta(node.Meta).String())
	}
	return table.flush()
}

// writeNodes prints one row for each node.
func writeNodes(w io.Writer, nodes []api.Node) error {
	table := newTable(w, "NODE", "STATE", "ROLE", "VOTES", "SHARDS", "WEIGHT", "ZONE", "APP", "APP-VERSION", "HEARD", "HTTP")
	for _, node := range nodes {
		table.row(node.ID, node.State, node.Role, yesNo(node.Voter), node.Shards, node.Weight, node.Zone, node.App, node.AppVersion, formatAge(node.LastHeartbeatMS), node.Endpoints["http"])
	}
	if err := table.flush(); err != nil {
		return err
	}
	return writeInstances(w, nodes)
}

// writeInstances prints one row for each app instance of the nodes that have several. It prints nothing if no
// node has.
func writeInstances(w io.Writer, nodes []api.Node) error {
	if !slices.ContainsFunc(nodes, func(node api.Node) bool { return len(node.Instances) > 0 }) {
		return nil
	}
	table := newTable(w, "\nINSTANCE", "STATE", "SHARDS")
	for _, node := range nodes {
		for _, instance := range node.Instances {
			table.row(ownerName(node.ID, instance.Number), instance.State, instance.Shards)
		}
	}
	return table.flush()
}

// ownerName returns the name of an owner as commands accept it: NODE, or NODE/INSTANCE. Zero means that no
// node has several app instances.
func ownerName(node string, instance int) string {
	if node == "" || instance == 0 {
		return node
	}
	return node + "/" + strconv.Itoa(instance)
}

// describeOwner returns the kind and the name of a node, or of an app instance NODE/INSTANCE.
func describeOwner(name string) string {
	if strings.Contains(name, "/") {
		return "app instance " + name
	}
	return "node " + name
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// formatAge formats the age of a heartbeat. A negative age means unknown.
func formatAge(ms int64) string {
	if ms < 0 {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).String() + " ago"
}

type endpointsCommand struct {
	Name  string `help:"Only addresses with this name, such as http." placeholder:"NAME"`
	Watch bool   `help:"Print the list again at each change, until interrupted."`
	target
}

// Help describes the list.
func (c *endpointsCommand) Help() string {
	return `The list contains the addresses of all nodes, their addresses of --endpoint, and the
services that "shardway announce" adds. A member that fails disappears from it.

With --watch, an empty line separates the lists. If the node does not respond, the
command retries, because the node may be restarting. With --watch --json, each line
contains one list.`
}

// Run lists the announced endpoints.
func (c *endpointsCommand) Run(ctx context.Context, session *session) error {
	endpoints, err := c.client(session)
	if err != nil {
		return err
	}
	defer endpoints.Close()
	list, err := endpoints.Endpoints(ctx, c.Name)
	if err != nil {
		return err
	}
	if c.Watch {
		return c.watch(ctx, session, endpoints, list)
	}
	return c.write(session.out, list)
}

// watch prints the list, and then each list that differs from the one before, until ctx ends.
func (c *endpointsCommand) watch(ctx context.Context, session *session, endpoints *client.Client, list api.EndpointList) error {
	for {
		if err := c.writeChange(session.out, list); err != nil {
			return err
		}
		printed := list.Version
		for list.Version == printed {
			err := session.retry(ctx, func() (err error) {
				list, err = endpoints.EndpointsAfter(ctx, c.Name, printed, followWait)
				return err
			})
			if err != nil || ctx.Err() != nil {
				return err
			}
		}
		if !c.JSON {
			if _, err := io.WriteString(session.out, "\n"); err != nil {
				return err
			}
		}
	}
}

// writeChange prints one list of --watch. In JSON, it is one line.
func (c *endpointsCommand) writeChange(w io.Writer, list api.EndpointList) error {
	if c.JSON {
		return writeJSONLine(w, list)
	}
	return c.write(w, list)
}

// write prints one list.
func (c *endpointsCommand) write(w io.Writer, list api.EndpointList) error {
	if c.JSON {
		return writeJSON(w, list)
	}
	table := newTable(w, "NODE", "KIND", "NAME", "ADDRESS")
	for _, endpoint := range list.Endpoints {
		table.row(endpoint.Node, endpoint.Kind, endpoint.Name, endpoint.Addr)
	}
	return table.flush()
}
