from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

REQUIRED = [
    "numpy",
    "torchvision==0.15.2",
]
setup(
    name="spam",
    install_requires=REQUIRED,
    extras_require={"fast": ["xformers"]},
    ext_modules=[CUDAExtension("ops", ["ops.cu"])],
)
