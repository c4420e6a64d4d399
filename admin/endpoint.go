package admin

// Kinds of member an Endpoint can belong to.
const (
	KindNode   = "node"
	KindMember = "member"
)

// Endpoint is one row of GET /v1/endpoints.
type Endpoint struct {
	Node string `json:"node"` // id of the node, or name of the Serf member
	Kind string `json:"kind"` // node, or member when it is no Shardway node
	Name string `json:"name"` // without "ep."
	Addr string `json:"addr"`
}

// EndpointList is the answer of GET /v1/endpoints.
type EndpointList struct {
	Endpoints []Endpoint `json:"endpoints"`
}
