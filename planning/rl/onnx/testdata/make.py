#!/usr/bin/python3
"""Makes the fixtures: policies with the architectures of Stable-Baselines3 and CleanRL,
exported by PyTorch, and what PyTorch says of some inputs.

Debian 12: apt install python3-torch python3-onnx; run it in this folder. Hidden layers of
the large ones are narrower than theirs, so that files stay small.
"""
import io
import json

import torch
from torch import nn

torch.manual_seed(7)


class Features(nn.Module):
    """SB3's ActorCriticPolicy: features flattened, two towers, two outputs."""

    def __init__(self, obs, actions):
        super().__init__()
        self.flatten = nn.Flatten()
        self.policy = nn.Sequential(nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.value = nn.Sequential(nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.action_net, self.value_net = nn.Linear(64, actions), nn.Linear(64, 1)

    def forward(self, x):
        x = self.flatten(x)
        return self.action_net(self.policy(x)), self.value_net(self.value(x))


class Greedy(nn.Module):
    """SB3's DQN policy as it predicts: the index of the largest Q."""

    def __init__(self, obs, actions):
        super().__init__()
        self.q = nn.Sequential(nn.Flatten(), nn.Linear(obs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))

    def forward(self, x):
        return self.q(x).argmax(dim=1)


class Scaled(nn.Module):
    """CleanRL's actor of DDPG and TD3: tanh, scaled to the bounds of actions."""

    def __init__(self, obs, actions):
        super().__init__()
        self.fc1, self.fc2, self.mu = nn.Linear(obs, 48), nn.Linear(48, 32), nn.Linear(32, actions)
        self.register_buffer("scale", torch.tensor([2.0] + [0.5] * (actions - 1)))
        self.register_buffer("bias", torch.tensor([0.25] * actions))

    def forward(self, x):
        x = torch.relu(self.fc2(torch.relu(self.fc1(x))))
        return torch.tanh(self.mu(x)) * self.scale + self.bias


class Probabilities(nn.Module):
    """CleanRL's PPO agent, normalised observations in front and probabilities behind."""

    def __init__(self, obs, actions):
        super().__init__()
        self.register_buffer("mean", torch.randn(obs))
        self.register_buffer("deviation", torch.rand(obs) + 0.5)
        self.actor = nn.Sequential(nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, actions))

    def forward(self, x):
        return torch.softmax(self.actor((x - self.mean) / self.deviation), dim=-1)


class Unbiased(nn.Module):
    """A linear layer without bias is exported as MatMul, and its bias as Add."""

    def __init__(self, obs, actions):
        super().__init__()
        self.a, self.b = nn.Linear(obs, 24, bias=False), nn.Linear(24, actions, bias=False)
        self.bias = nn.Parameter(torch.randn(actions))

    def forward(self, x):
        return torch.clip(self.b(torch.relu(self.a(x))) + self.bias, -0.3, 0.4)


models = {
    "sb3-ppo": (Features(8, 4), 8, ["action", "value"]),
    "sb3-dqn-greedy": (Greedy(4, 2), 4, ["action"]),
    "sb3-dqn": (Greedy(6, 3).q, 6, ["q"]),
    # SB3's TD3 and DDPG actor: 400, 300, ReLU, tanh at the end.
    "sb3-td3": (nn.Sequential(nn.Flatten(), nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 1), nn.Tanh()), 3, ["action"]),
    # CleanRL's DQN and, with LayerNorm, PQN: 120, 84.
    "cleanrl-dqn": (nn.Sequential(nn.Linear(4, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 2)), 4, ["q"]),
    "cleanrl-pqn": (nn.Sequential(nn.Linear(4, 60), nn.LayerNorm(60), nn.ReLU(), nn.Linear(60, 42), nn.LayerNorm(42), nn.ReLU(), nn.Linear(42, 2)), 4, ["q"]),
    "cleanrl-ddpg": (Scaled(5, 3), 5, ["action"]),
    "cleanrl-ppo": (Probabilities(4, 3), 4, ["probabilities"]),
    "matmul-clip": (Unbiased(4, 3), 4, ["action"]),
}
for name, (model, obs, outputs) in models.items():
    model.eval()
    for p in model.parameters():
        if p.dim() == 1:  # gains and biases that are not what they begin as
            with torch.no_grad():
                p.add_(0.1 * torch.randn_like(p))
    x = torch.randn(16, obs) * 2
    with torch.no_grad():
        y = model(x)
    y = y if isinstance(y, tuple) else (y,)
    torch.onnx.export(
        model, torch.zeros(1, obs), name + ".onnx", opset_version=17, input_names=["obs"], output_names=outputs,
        dynamic_axes={n: {0: "batch"} for n in ["obs"] + outputs},
    )
    with open(name + ".json", "w") as f:
        json.dump({"inputs": x.tolist(), "outputs": {o: v.float().reshape(16, -1).tolist() for o, v in zip(outputs, y)}}, f)
