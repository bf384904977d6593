package vertical

import _ "embed"

// Shipped is the name of the model that comes with the program.
const Shipped = "agents"

//go:embed shipped/model.rl
var shippedModel []byte

//go:embed shipped/card.json
var shippedCard []byte

// ShippedModel is the model as rl.Encode wrote it, and its card as JSON: where it is from,
// what it was trained on and what it is not for. `make train-agents` makes them.
func ShippedModel() (model, card []byte) { return shippedModel, shippedCard }
