// Where a key goes. It is reckoned here, by the function that the map names: a key is
// somebody's name as often as not, and stands in no address and no log for this.
function located(key) {
  if (map.hash !== 'xxhash64' || map.owners.length === 0) return 'The shards are not known yet.';
  const list = services(), service = shownService() ?? list.find((s) => s.name === 'default') ?? (list.length === 1 ? list[0] : undefined);
  if (list.length > 0 && !service) return `Choose a service in the table first: ${list.map((s) => s.name).join(', ')}.`;
  const { first, shards } = service ?? scope(), shard = first + shardOf(key, shards), owner = ownerOf(shard);
  goTo(shard, true);
  if (owner === '') return `${shardName(shard)} is orphaned: requests wait or are refused.`;
  const where = map.nodes[map.owners[shard]].http;
  return `${shardName(shard)}, at ${owner}${where ? ` (${where})` : ''}${silent.has(owner) ? `, and unavailable: ${silent.get(owner)}` : ''}.`;
}

let sought = false;

function showLocated() {
  if (sought) say($('located'), located($('key').value));
}

$('locate').addEventListener('submit', (e) => {
  e.preventDefault();
  sought = true;
  showLocated();
});
