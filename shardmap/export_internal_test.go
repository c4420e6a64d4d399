package shardmap

// Part returns the map of the shards of a service, numbered from zero, for tests.
func (m *Map) Part(service Service) *Map { return m.part(service) }
