"""A vision transformer that classifies images: patches, layers without a mask, the mean of their outputs."""

import torch.nn.functional as F
from torch import Tensor, nn

from trainer.presets import Vision


class VisionLayer(nn.Module):
    """Attention among all patches and feed-forward, each behind a norm and beside a residual."""

    def __init__(self, shape: Vision) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm1, self.norm2 = (nn.LayerNorm(shape.width, eps=shape.epsilon) for _ in range(2))
        self.qkv, self.attention_out = nn.Linear(shape.width, 3 * shape.width), nn.Linear(shape.width, shape.width)
        self.up, self.out = nn.Linear(shape.width, shape.hidden), nn.Linear(shape.hidden, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """x: [batch, patches, width]; returns the same."""
        batch, patches, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, patches, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, patches, width)
        x = x + self.attention_out(y)
        return x + self.out(F.gelu(self.up(self.norm2(x))))


class VisionTransformer(nn.Module):
    """Images to the sum of their losses."""

    def __init__(self, shape: Vision) -> None:
        super().__init__()
        self.shape = shape
        self.patches = nn.Linear(3 * shape.patch**2, shape.width)
        self.positions = nn.Embedding((shape.image // shape.patch) ** 2, shape.width)
        self.layers = nn.ModuleList(VisionLayer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.head = nn.Linear(shape.width, shape.classes)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """inputs: [batch, 3, image, image] from -1 to 1, targets: [batch] classes; returns the summed loss."""
        patches = F.unfold(inputs, self.shape.patch, stride=self.shape.patch).transpose(1, 2)
        x = self.patches(patches) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x).mean(dim=1)).float()
        return F.cross_entropy(logits, targets, reduction="sum")
