package cli

import "context"

type endpointsCommand struct {
	Name string `help:"Only addresses with this name, such as http." placeholder:"NAME"`
	target
}

// Run lists the announced endpoints.
func (c *endpointsCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Endpoints(ctx, c.Name)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, list)
	}
	t := newTable(s.out, "NODE", "KIND", "NAME", "ADDRESS")
	for _, e := range list.Endpoints {
		t.row(e.Node, e.Kind, e.Name, e.Addr)
	}
	return t.flush()
}
