package api

// Values of Endpoint.Kind.
const (
	KindNode   = "node"
	KindMember = "member"
)

// Endpoint is one row of GET /v1/endpoints.
type Endpoint struct {
	Node string `json:"node"` // id of the node, or name of the Serf member
	Kind string `json:"kind"` // node, or member if the Serf member is not a Shardway node
	Name string `json:"name"` // without the prefix "ep."
	Addr string `json:"addr"`
}

// EndpointList is the response of GET /v1/endpoints.
type EndpointList struct {
	Endpoints []Endpoint `json:"endpoints"`
	// Version identifies these endpoints. A long poll with ?watch=VERSION waits until they differ.
	Version string `json:"version"`
}
