# VGG16 with random weights, whose layers are each between two readings of the thread's CPU clock: images of one size, or in turn small
# ones, where the classifier takes most of the time, and larger ones, where the convolutions do. Writes as Shop.java does.
#   vgg16.py SECONDS PHASE-SECONDS (0: steady)
# SPDX-License-Identifier: Apache-2.0
import sys
import time

import torch
import torchvision

seconds, phase = float(sys.argv[1]), float(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(1)
model = torchvision.models.vgg16().eval()
used, started = {}, {}


def before(module, _):
    started[module] = time.thread_time_ns()


def after(module, _, __):
    name = type(module).forward.__qualname__
    used[name] = used.get(name, 0) + time.thread_time_ns() - started[module]


def tell():
    print(int(time.time() * 1000), *(f'{name} {ns}' for name, ns in used.items()), flush=True)


for layer in model.modules():
    if not list(layer.children()):
        layer.register_forward_pre_hook(before)
        layer.register_forward_hook(after)
images = [torch.rand(1, 3, 32, 32), torch.rand(1, 3, 112, 112)]
with torch.no_grad():
    model(images[0])
    used = dict.fromkeys(used, 0)
    print('ready', flush=True)
    sys.stdin.readline()
    start, told = time.time(), 0
    while time.time() - start < seconds:
        if time.time() - start >= told:
            tell()
            told += 1
        model(images[int((time.time() - start) / phase) % 2 if phase > 0 else 0])
    tell()
