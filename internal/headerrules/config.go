package headerrules

import (
	"errors"
	"strings"

	"shardway/internal/valueerr"
)

// Config contains the rules of one path prefix, or those for all paths.
type Config struct {
	Request  Rules // for requests to the app
	Response Rules // for responses of the app
}

// IsEmpty reports whether there are no rules.
func (c *Config) IsEmpty() bool { return c.Request.IsEmpty() && c.Response.IsEmpty() }

// Equal reports whether two Configs are the same.
func (c *Config) Equal(other *Config) bool {
	return c.Request.Equal(&other.Request) && c.Response.Equal(&other.Response)
}

// String returns the rules as text.
func (c *Config) String() string {
	var parts []string
	if !c.Request.IsEmpty() {
		parts = append(parts, "request: "+c.Request.String())
	}
	if !c.Response.IsEmpty() {
		parts = append(parts, "response: "+c.Response.String())
	}
	return strings.Join(parts, "; ")
}

// Check returns the first error found, a *valueerr.Error whose Key locates the rule, such as request.set. keyFields
// contains the fields from which the key of a request may be read.
func (c *Config) Check(keyFields []string) error {
	if err := c.Request.Check(Request, keyFields); err != nil {
		return within("request", err)
	}
	return within("response", c.Response.Check(Response, nil))
}

// within adds the name of the table to the key of an error.
func within(table string, err error) error {
	if valueErr := (*valueerr.Error)(nil); errors.As(err, &valueErr) {
		valueErr.Key = table + "." + valueErr.Key
	}
	return err
}
